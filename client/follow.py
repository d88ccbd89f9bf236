"""Looking at a Run as it stands: from the history of its latest execution, and what is pending."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import computed_field
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.project import Projection
from perdure.runs import contract
from perdure.runs.deltas import Segment
from perdure.runs.errors import (
    ConfigurationError,
    EngineUnavailable,
    PerdureError,
    RunNotFound,
)
from perdure.runs.frozen import Frozen
from perdure.runs.ids import step_of
from perdure.runs.run import Run
from perdure.runs.status import WaitingOn
from perdure.sessions.contract import REPORT_MEMO, workflow_id

TAKEN_AT_ONCE = timedelta(seconds=3)
"""A Step that no worker has taken for so long waits for one; two clocks may differ by less."""


async def describe(client: Client, run_id: str) -> WorkflowExecutionDescription:
    """Return what Temporal knows of the Run's latest execution.

    Raises:
        RunNotFound: When there is none.
        EngineUnavailable: When the server does not answer.
    """
    try:
        found = await client.get_workflow_handle(run_id).describe()
        if found.workflow_type != contract.RUN_WORKFLOW:  # but a Session's, or somebody else's
            raise RPCError("no Run", RPCStatusCode.NOT_FOUND, b"")
    except RPCError as exc:
        raise translated(exc, run_id) from exc
    return found


def translated(exc: RPCError, run_id: str | None) -> PerdureError:
    """Return Temporal's refusal in our words.

    Args:
        exc: What Temporal said.
        run_id: The Run that was asked for, if one was.
    """
    refused = exc.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
    if refused and (run_id is None or "namespace" in exc.message.lower()):
        return ConfigurationError(
            f"Temporal refused: {exc.message}.",
            hint="Check TEMPORAL_NAMESPACE; a worker registers the search attributes it needs.",
        )
    if exc.status is RPCStatusCode.PERMISSION_DENIED:
        return ConfigurationError(
            f"Temporal refused: {exc.message}.", hint="Check TEMPORAL_API_KEY and its rights."
        )
    if refused:
        return RunNotFound(
            f"There is no Run {run_id!r}.", hint="`perdure list` shows those there are."
        )
    return EngineUnavailable(
        f"Temporal did not answer ({exc.message}).",
        hint="Check the server; Runs go on when it is back.",
    )


def first_execution(description: WorkflowExecutionDescription) -> str:
    """Return the first of the executions that continued as new, up to this one."""
    info = description.raw_description.workflow_execution_info
    return info.first_run_id or description.run_id


async def latest(client: Client, run_id: str) -> Run:
    """Return the Run as its history has it now, reading only its latest execution.

    What a Step waits for that is to be tried again is not in the history; the server tells.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server does not answer.
    """
    description = await describe(client, run_id)
    projection = Projection(run_id, client.data_converter)
    execution = client.get_workflow_handle(run_id, run_id=description.run_id)
    try:
        async for event in execution.fetch_history_events():
            await projection.feed(event)
    except RPCError as exc:
        raise translated(exc, run_id) from exc
    if projection.run is None:
        raise RunNotFound(f"The history of Run {run_id!r} is empty.")
    run = projection.run
    if run.status.is_terminal:
        return run
    waiting = await _in_queue(client, run) or _pending_on(description) or _with_children(run)
    return run if waiting is None else run.model_copy(update={"waiting_on": waiting})


async def _in_queue(client: Client, run: Run) -> WaitingOn | None:
    """Return that the Run waits for its turn, and at which place: its Session tells."""
    if run.waiting_on is None or run.waiting_on.type != "queue" or run.session_id is None:
        return None
    queue = await queue_of(client, run.session_id)
    if run.run_id not in queue:
        return None
    position = queue.index(run.run_id) + 1
    return run.waiting_on.model_copy(update={"queue_position": position})


async def queue_of(client: Client, session_id: str) -> list[str]:
    """Return the Runs that wait for their turn in a Session, the next one first."""
    session = client.get_workflow_handle(workflow_id(session_id))
    try:
        told = await (await session.describe()).memo_value(REPORT_MEMO, {})
    except RPCError:
        return []  # a Session that is gone gives nobody a turn
    queue: list[str] = told.get("queue", [])
    return queue


async def ended(client: Client, run_id: str) -> Run:
    """Return a Run once it has ended.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server does not answer.
    """
    handle = client.get_workflow_handle(run_id)
    while True:
        try:
            with contextlib.suppress(WorkflowFailureError):
                await handle.result()
        except RPCError as exc:
            raise translated(exc, run_id) from exc
        run = await latest(client, run_id)
        if run.is_terminal:
            return run


def _pending_on(description: WorkflowExecutionDescription) -> WaitingOn | None:
    """Return that the Run waits for a Step to be tried again, or begun, if that is all it does."""
    pending = description.raw_description.pending_activities
    scheduled = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    if not pending or any(info.state != scheduled for info in pending):
        return None
    info = min(pending, key=lambda each: each.scheduled_time.ToNanoseconds())
    since = info.scheduled_time.ToDatetime(UTC)
    if datetime.now(UTC) - since < TAKEN_AT_ONCE:
        return _retrying(info) if info.attempt > 1 else None
    step = f"Step {info.activity_id} ({info.activity_type.name})"
    return WaitingOn(type="worker", since=since, detail=f"no worker has taken {step} yet")


def _retrying(info: PendingActivityInfo) -> WaitingOn:
    failure = info.last_failure
    code = failure.application_failure_info.type or "worker_lost"
    return WaitingOn(
        type="retry",
        since=info.last_attempt_complete_time.ToDatetime(UTC),
        expires_at=info.scheduled_time.ToDatetime(UTC),
        detail=f"attempt {info.attempt} of Step {info.activity_id}, after {code}: "
        f"{failure.message}",
    )


def _with_children(run: Run) -> WaitingOn | None:
    """Return that the Run waits for Runs of other agents, if that is all it does."""
    running = [step for step in run.steps if step.status == "running"]
    children = [step.child_run_id for step in running if step.child_run_id is not None]
    if run.waiting_on is not None or not children or len(children) < len(running):
        return None
    return WaitingOn(type="child", since=running[0].started_at, detail=", ".join(children))


def _waits_to_retry(info: PendingActivityInfo) -> bool:
    return info.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED and info.attempt > 1


class PendingStep(Frozen):
    """A Step that runs, or waits for its next attempt, as Temporal sees it now."""

    step: int
    attempt: int
    said: tuple[Segment, ...] = ()
    """The log of what a model has said so far; a fraction of a second behind."""
    message: str = ""
    """What a tool says of how far it is, as much behind."""
    fraction: float | None = None
    """How much of its work a tool says is done, from 0 to 1."""
    last_failure: str = ""
    next_attempt_at: datetime | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def partial_text(self) -> str:
        """What the model has said of its answer."""
        return "".join(each.text for each in self.said if each.kind == "text")


async def pending_steps(client: Client, run_id: str) -> list[PendingStep]:
    """Return the Steps of a Run that are under way, with their partial output.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server does not answer.
    """
    described = await describe(client, run_id)
    return [await _pending(client, info) for info in described.raw_description.pending_activities]


async def _pending(client: Client, info: PendingActivityInfo) -> PendingStep:
    told: dict[str, Any] = {}
    if info.heartbeat_details.payloads:
        details = await client.data_converter.decode(info.heartbeat_details.payloads, [dict])
        # Until an attempt has brought something, the last words of the one before are there.
        if details[0].get("attempt", info.attempt) == info.attempt:
            told = details[0]
    return PendingStep(
        step=step_of(info.activity_id),
        attempt=info.attempt,
        said=told.get("said", ()),
        message=told.get("message", ""),
        fraction=told.get("fraction"),
        last_failure=info.last_failure.message,
        next_attempt_at=info.scheduled_time.ToDatetime(UTC) if _waits_to_retry(info) else None,
    )
