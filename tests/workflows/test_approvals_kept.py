"""Approvals over days, restarts, continue-as-new, failures, resumptions and forks."""

from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.testing import TimeSkipper

from perdure import Agent, tool
from perdure.client.continuing import Fork
from perdure.runs.errors import ActionAlreadyResolved
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import RecordedRequest, Reply, call, status, text, tool_calls
from tests.workflows.test_approvals import asks

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool(approval=True)
def deploy(what: str) -> str:
    """Deploy something."""
    DONE.append(what)
    return f"deployed {what}"


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number


CLERK = Agent(name="clerk", tools=[deploy, look])


async def forward(engine: Engine, run_id: str, **by: float) -> None:
    handle = engine.client.get_workflow_handle(run_id)
    await TimeSkipper(engine.client).fast_forward(handle, timedelta(**by))


async def test_p27_days_of_waiting_cost_nothing_and_survive_restarts(
    strict_engine: Engine,
) -> None:
    engine = strict_engine
    engine.model.script([tool_calls(call("deploy", {"what": "a"}, id="d")), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        (before,) = await engine.executions(run_id)
        await forward(engine, run_id, days=6, hours=23)
    async with engine.serving(CLERK):
        (after,) = await engine.executions(run_id)
        # Of the clock being put forward, not of the Run.
        assert len(after.events) - len(before.events) <= 2
        assert DONE == []
        await engine.manager.approve(run_id, "d", by="ann")
        run = await engine.ended(run_id)
    assert (run.output, DONE) == ("Done.", ["a"])


async def test_p27_after_seven_days_it_is_a_no(strict_engine: Engine) -> None:
    engine = strict_engine
    engine.model.script([tool_calls(call("deploy", {"what": "a"}, id="d")), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        await forward(engine, run_id, days=7, hours=1)
        run = await engine.ended(run_id)
        with pytest.raises(ActionAlreadyResolved, match="expired"):
            await engine.manager.approve(run_id, "d", by="ann")
    assert (run.output, DONE) == ("Done.", [])


async def test_p27_a_run_that_continued_as_new_asks_and_is_answered(
    strict_engine: Engine,
) -> None:
    engine = strict_engine

    def answer(request: RecordedRequest) -> Reply:
        said = sum(message["role"] == "assistant" for message in request.messages)
        if said == 20:
            return text("Done.")
        if said in (2, 18):
            return tool_calls(call("deploy", {"what": str(said)}, id="d"))
        return tool_calls(call("look", {"number": said}))

    engine.model.respond_with(answer)
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        for action in ("action_1", "action_2"):
            await asks(engine, run_id)
            await engine.manager.approve(run_id, action, by="ann")
        run = await engine.ended(run_id)
        assert len(await engine.executions(run_id)) > 1
    assert DONE == ["2", "18"]
    assert run.actions_asked == 2


async def test_appr_04_a_result_is_kept_when_the_next_model_call_fails(engine: Engine) -> None:
    engine.model.script(
        [tool_calls(call("deploy", {"what": "a"}, id="d")), status(401), text("Done.")]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        await engine.manager.approve(run_id, "d", by="ann")
        run = await engine.ended(run_id)
        assert run.status is RunStatus.FAILED
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert (run.output, DONE, run.actions_asked) == ("Done.", ["a"], 1)


async def test_appr_03_a_yes_that_was_not_used_yet_holds_for_the_resumed_run(
    engine: Engine,
) -> None:
    calls: list[Any] = [call("deploy", {"what": each}, id=each) for each in ("a", "b")]
    engine.model.script([tool_calls(*calls), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id, 2)
        await engine.manager.pause(run_id)
        await engine.manager.approve(run_id, "a", by="ann")
    async with engine.serving(CLERK):
        await engine.manager.cancel(run_id)
        await engine.ended(run_id)
        assert DONE == []
        await engine.manager.resume(run_id)
        run = await asks(engine, run_id)
        assert run.waiting_on is not None
        assert run.waiting_on.action_ids == ("action_3",)
        await engine.manager.reject(run_id, "b", by="ann")
        run = await engine.ended(run_id)
    assert (run.output, DONE) == ("Done.", ["a"])


async def test_appr_06_a_fork_asks_again(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("look", {"number": 1})),
            tool_calls(call("deploy", {"what": "a"}, id="d")),
            text("Done."),
            text("Not done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        await engine.manager.approve(run_id, "d", by="ann")
        original = await engine.ended(run_id)
        forked = await engine.manager.fork(run_id, Fork(step=3))
        run = await asks(engine, forked)
        assert run.waiting_on is not None
        assert run.waiting_on.action_ids == ("action_2",)
        assert DONE == ["a"]
        await engine.manager.reject(forked, "d", by="ann")
        run = await engine.ended(forked)
        assert (await engine.manager.get_run(run_id)) == original
    assert (run.output, DONE) == ("Not done.", ["a"])
    assert len(engine.model.requests) == 4


async def test_appr_08_a_decision_after_the_point_of_a_reset_does_not_open_another_gate(
    engine: Engine,
) -> None:
    calls = [tool_calls(call("deploy", {"what": each}, id="d")) for each in ("a", "b")]
    engine.model.script([calls[0], text("Done."), calls[1], text("Done again.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        await engine.manager.approve(run_id, "d", by="ann")
        await engine.ended(run_id)
        described = await engine.client.get_workflow_handle(run_id).describe()
        request = ResetWorkflowExecutionRequest(
            namespace=engine.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run_id, run_id=described.run_id),
            reason="to the beginning",
            workflow_task_finish_event_id=4,
            request_id="reset",
        )
        await engine.client.workflow_service.reset_workflow_execution(request)
        run = await asks(engine, run_id)
        assert run.waiting_on is not None
        assert run.waiting_on.detail == 'deploy({"what": "b"})'
        assert DONE == ["a"]
        await engine.manager.reject(run_id, "d", by="bob")
        run = await engine.manager.wait(run_id)
    assert (run.output, DONE) == ("Done again.", ["a"])
