"""The Steps of a Run, and the whole results of its tool calls."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from perdure.client.follow import PendingStep
from perdure.gateway.described import problems
from perdure.gateway.ids import scoped_run
from perdure.gateway.queries import ReadSteps
from perdure.gateway.routes.callers import Manager, Reader
from perdure.runs.frozen import Frozen
from perdure.runs.steps import Step, ToolCall

router = APIRouter(tags=["runs"])


class RunStep(Frozen):
    """A Step, with what belongs to it."""

    step: Step
    call: ToolCall | None = None
    """The tool call that it executes."""
    pending: PendingStep | None = None
    """While it runs: its attempt, what it has said so far, its last failure."""


class StepPage(Frozen):
    """Some Steps of a Run, in order."""

    steps: tuple[RunStep, ...]
    has_more: bool
    """There are more: ask again, starting after the last of these."""


class CallResult(Frozen):
    """The result of a tool call, whole also where the model saw it cut."""

    run_id: str
    call: str
    result: str


@router.get(
    "/v1/runs/{run_id}/steps",
    response_model=StepPage,
    responses=problems(404),
    summary="Read the Steps of a Run.",
)
async def read_steps(
    run_id: str, caller: Reader, manager: Manager, asked: Annotated[ReadSteps, Query()]
) -> Any:
    """Return Steps with attempts, timings, usage and errors; what runs with how far it is."""
    chosen = scoped_run(caller, run_id)
    run = await manager.get_run(chosen)
    steps = [each for each in run.steps if each.number > asked.starting_after]
    shown = steps[: asked.limit]
    runs_now = any(each.status == "running" for each in shown)
    pending = await manager.pending_steps(chosen) if runs_now else []
    under_way = {each.step: each for each in pending}
    calls = {each.step: each for each in run.tool_calls if each.step is not None}
    told = tuple(
        RunStep(
            step=each,
            call=calls.get(each.number),
            pending=under_way.get(each.number) if each.status == "running" else None,
        )
        for each in shown
    )
    return StepPage(steps=told, has_more=len(steps) > len(shown))


@router.get(
    "/v1/runs/{run_id}/result/{call}",
    response_model=CallResult,
    responses=problems(404),
    summary="Read the result of a tool call.",
)
async def read_result(run_id: str, call: str, caller: Reader, manager: Manager) -> Any:
    """Return a tool call's whole result; it is named by its id or the number of its Step."""
    chosen = scoped_run(caller, run_id)
    return CallResult(run_id=chosen, call=call, result=await manager.result(chosen, call))
