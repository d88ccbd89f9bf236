"""Typed stubs of the activities: the only place where workflow code starts any.

Timeouts and retries of Temporal's side stand here. A model activity enforces the finer limits
(first byte, idle, total) itself; a worker's death is found by the heartbeat timeout.
"""

import contextlib
from datetime import timedelta
from typing import cast

from perdure.runs import contract
from perdure.runs.contract import CancelRequest, ModelRequest, ToolRequest
from perdure.runs.limits import DEFAULT_HEARTBEAT_S, DEFAULT_TOOL_S, TAKEN_WITHIN_S
from perdure.runs.retries import MAX_ATTEMPTS
from perdure.runs.steps import ModelReply, ToolCall, ToolReply
from perdure.runs.usage import Usage
from perdure.sessions import contract as sessions
from perdure.sessions.contract import OpenRuns, OutcomeRequest
from perdure.sessions.outcome import RunOutcome
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError

ACTION_TIMER = "action expires"
"""Summary of the timer that ends a wait for people: the projection tells it apart by this."""
MODEL_BACKSTOP = timedelta(hours=1)
"""Longest possible attempt of a model call; the agent's own timeouts end it much earlier."""
MODEL_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=MAX_ATTEMPTS,
)
"""For worker deaths. What a provider does is retried as `perdure.runs.retries` says, within
this number of attempts: the activity sets each delay, and says when it gives up."""


READ_WITHIN = timedelta(seconds=5)
"""For what a Session reads of Temporal while somebody waits for it."""
READ_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=0.5), maximum_attempts=4)
"""Of the same. The SDK does not hold a local activity to its schedule-to-close timeout."""
OUTCOME_BACKSTOP = timedelta(days=365)
"""A Run may wait for people; the activity that waits for its end is alive as it heartbeats."""


def start_model(
    request: ModelRequest, heartbeat_s: float | None
) -> workflow.ActivityHandle[ModelReply]:
    """Start the model call of a turn."""
    handle = workflow.start_activity(
        contract.CALL_MODEL,
        request,
        result_type=ModelReply,
        activity_id=str(request.step),
        summary=_model_summary(request),
        start_to_close_timeout=MODEL_BACKSTOP,
        heartbeat_timeout=timedelta(seconds=heartbeat_s or DEFAULT_HEARTBEAT_S),
        retry_policy=MODEL_RETRIES,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )
    return cast("workflow.ActivityHandle[ModelReply]", handle)


def start_tool(
    request: ToolRequest, call: ToolCall, heartbeat_s: float | None
) -> workflow.ActivityHandle[ToolReply]:
    """Start the execution of a tool call, as its tool's policy says."""
    queue = call.policy.task_queue
    handle = workflow.start_activity(
        contract.TOOL_PREFIX + request.name,
        request,
        task_queue=queue,
        result_type=ToolReply,
        activity_id=str(request.step),
        summary=_call_summary(request),
        schedule_to_start_timeout=timedelta(seconds=TAKEN_WITHIN_S) if queue else None,
        start_to_close_timeout=timedelta(seconds=call.policy.timeout_s or DEFAULT_TOOL_S),
        heartbeat_timeout=timedelta(seconds=heartbeat_s or DEFAULT_HEARTBEAT_S),
        retry_policy=RetryPolicy(maximum_attempts=call.policy.max_attempts),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )
    return cast("workflow.ActivityHandle[ToolReply]", handle)


async def request_cancel(request: CancelRequest) -> None:
    """Ask Temporal to cancel this very workflow, which it can't ask for itself."""
    await workflow.execute_local_activity(
        contract.REQUEST_CANCEL,
        request,
        start_to_close_timeout=timedelta(seconds=5),
        schedule_to_close_timeout=timedelta(minutes=1),
    )


async def run_usage(run_id: str, step: int) -> Usage:
    """Read what a Run has used that has ended, and was a Step of the one that asks."""
    usage: Usage = await workflow.execute_local_activity(
        contract.RUN_USAGE,
        run_id,
        result_type=Usage,
        activity_id=str(step),
        start_to_close_timeout=READ_WITHIN,
        retry_policy=READ_RETRIES,
    )
    return usage


async def run_outcome(run_id: str, *, has_ended: bool) -> RunOutcome:
    """Read, in a Session, what a Run has left once it has ended.

    Where it is known to have ended, a local activity does: it costs one event, not six.
    """
    request = OutcomeRequest(run_id=run_id)
    outcome: RunOutcome
    if has_ended:
        with contextlib.suppress(FailureError):
            outcome = await workflow.execute_local_activity(
                sessions.RUN_OUTCOME,
                request,
                result_type=RunOutcome,
                start_to_close_timeout=READ_WITHIN,
                retry_policy=READ_RETRIES,
            )
            return outcome
    outcome = await workflow.execute_activity(
        sessions.RUN_OUTCOME,
        request,
        result_type=RunOutcome,
        summary=run_id,
        start_to_close_timeout=OUTCOME_BACKSTOP,
        heartbeat_timeout=timedelta(seconds=DEFAULT_HEARTBEAT_S),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30)),
    )
    return outcome


async def open_runs(session_id: str) -> tuple[str, ...]:
    """Return the Runs that an earlier Session of this name has left behind.

    None, when Temporal can't be searched for long: the new Session's users wait for this.
    """
    try:
        found: OpenRuns = await workflow.execute_local_activity(
            sessions.OPEN_RUNS,
            session_id,
            result_type=OpenRuns,
            start_to_close_timeout=READ_WITHIN,
            retry_policy=READ_RETRIES,
        )
    except FailureError:  # of a local activity, the SDK raises the cause itself
        workflow.logger.exception("Runs of an earlier Session of this name can't be found")
        return ()
    return found.run_ids


def _model_summary(request: ModelRequest) -> str:
    purpose = "" if request.purpose == "turn" else f" · {request.purpose}"
    return f"turn {request.turn} · {request.agent}{purpose}"


def _call_summary(request: ToolRequest) -> str:
    # Temporal refuses summaries over 400 bytes.
    text = f"turn {request.turn} · {request.name}({request.arguments})"
    return text if len(text) <= 100 else text[:99] + "…"
