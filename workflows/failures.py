"""Why an activity failed, as a `RunError`: the one reading of Temporal's failures.

The workflow meets them as exceptions, a client decodes the same ones from the history; both
ask here, so both record the same error.
"""

from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import TAKEN_WITHIN_S
from perdure.runs.policy import ToolPolicy
from perdure.runs.usage import Usage
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)

WORKER_SHUTDOWN = "WorkerShutdown"
"""The type under which the SDK reports an activity that a stopped worker had to cancel."""


def step_error(exc: BaseException | None, policy: ToolPolicy | None) -> RunError:
    """Return what a failed activity means for its Step.

    Args:
        exc: What Temporal says; for an `ActivityError`, its cause counts.
        policy: The tool's policy, none for a model call.
    """
    cause = exc.cause if isinstance(exc, ActivityError) else exc
    match cause:
        case ApplicationError() if cause.type == WORKER_SHUTDOWN:
            return _lost(policy, "its worker was stopped")
        case ApplicationError():
            return application_error(cause)
        case CancelledError():
            return error(ErrorCode.CANCELLED)
        case TimeoutError():
            return _timed_out(cause, policy)
        case _:
            return error(ErrorCode.INTERNAL, f"The activity failed: {cause}")


def child_failure(cause: BaseException | None) -> tuple[RunError, Usage | None]:
    """Return why the Run of another agent did not complete, and what it used, if it said so."""
    match cause:
        case ApplicationError() if len(cause.details) > 1:
            return application_error(cause), Usage.model_validate(cause.details[1])
        case ApplicationError():
            return application_error(cause), None
        case CancelledError():
            return error(ErrorCode.CANCELLED), None
        case TerminatedError():
            return error(ErrorCode.TERMINATED), None
        case TimeoutError():
            return error(ErrorCode.RUN_TIMEOUT), None
        case _:
            return error(ErrorCode.INTERNAL, f"The Run failed: {cause}"), None


def application_error(exc: ApplicationError) -> RunError:
    """Return the `RunError` that an activity or a Run failed with.

    The SDK wraps what happens while it reads an activity's input; the cause counts then. An
    exception that we did not make ourselves carries none; it is a fault of the engine.
    """
    if exc.details and isinstance(exc.details[0], dict) and "code" in exc.details[0]:
        return RunError.model_validate(exc.details[0])
    if isinstance(exc.cause, ApplicationError):
        return application_error(exc.cause)
    return error(ErrorCode.INTERNAL, f"{exc.type}: {exc.message}")


def _timed_out(exc: TimeoutError, policy: ToolPolicy | None) -> RunError:
    if exc.type is TimeoutType.HEARTBEAT:
        return _lost(policy, "its worker died")
    if policy is None:
        return error(ErrorCode.LLM_TIMEOUT, retryable=True)
    if exc.type is TimeoutType.SCHEDULE_TO_START:
        where = f"the task queue {policy.task_queue!r}"
        told = f"No worker of {where} took the call in {TAKEN_WITHIN_S:g} s; it was not executed."
        return error(ErrorCode.NO_WORKER, told)
    how = f"it did not end in {policy.timeout_s or 0:g} s"
    if policy.effect == "unsafe":
        return _unknown(how)
    return error(ErrorCode.TOOL_TIMEOUT, f"The tool did not end in {policy.timeout_s or 0:g} s.")


def _lost(policy: ToolPolicy | None, how: str) -> RunError:
    if policy is not None and policy.effect == "unsafe":
        return _unknown(how)
    return error(ErrorCode.WORKER_LOST, retryable=True)


def _unknown(how: str) -> RunError:
    told = f"The tool was started, then {how}; whether it had its effect is unknown."
    return error(ErrorCode.OUTCOME_UNKNOWN, told)
