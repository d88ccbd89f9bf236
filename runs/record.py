"""What happened, as the next Event of a Run.

The workflow records with these what it does, and the projection of its history records with
the same ones what it reads: that is why both get the same Run.
"""

from datetime import datetime

from perdure.runs.decide import Finish
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.events import (
    CancelRequested,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunStart,
    RunStarted,
    RunTimedOut,
    StepCompleted,
    StepFailed,
    StepStarted,
    TerminalEvent,
)
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import Reply


def queued(run_id: str, start: RunStart, at: datetime) -> RunQueued:
    """Return the first Event of a Run."""
    return RunQueued(run_id=run_id, sequence_number=0, at=at, start=start)


def started(run: Run, at: datetime) -> RunStarted:
    """Return the Event that says a worker has the Run."""
    return RunStarted(**run.stamp(at))


def model_step_started(run: Run, at: datetime) -> StepStarted:
    """Return the Event that starts the model call of the next turn."""
    number, turn = len(run.steps) + 1, run.turn + 1
    return StepStarted(**run.stamp(at), step=number, kind="model", name=run.agent, turn=turn)


def tool_step_started(run: Run, at: datetime, name: str, call_id: str) -> StepStarted:
    """Return the Event that starts the execution of a tool call of this turn."""
    return StepStarted(
        **run.stamp(at),
        step=len(run.steps) + 1,
        kind="tool",
        name=name,
        turn=run.turn,
        call_id=call_id,
    )


def step_ended(
    run: Run, at: datetime, step: int, outcome: Reply | RunError
) -> StepCompleted | StepFailed:
    """Return the Event with which a Step ends.

    Args:
        run: The Run so far.
        at: When.
        step: The Step's number.
        outcome: Its activity's reply, or why there is none.
    """
    if isinstance(outcome, RunError):
        return StepFailed(**run.stamp(at), step=step, error=outcome)
    if outcome.error is not None:
        return StepFailed(**run.stamp(at), step=step, error=outcome.error, reply=outcome)
    return StepCompleted(**run.stamp(at), step=step, reply=outcome)


def cancel_requested(run: Run, at: datetime, reason: str) -> CancelRequested | None:
    """Return the Event that stops a Run, or none when it has ended or is being stopped."""
    if run.cancel is not None or run.status.is_terminal:
        return None
    return CancelRequested(**run.stamp(at), by="user", reason=reason)


def deadline_passed(run: Run, at: datetime) -> CancelRequested | None:
    """Return the Event that stops a Run whose time is up, or none as above."""
    if run.cancel is not None or run.status.is_terminal:
        return None
    reason = f"The Run may take {run.timeouts.run_s:g} s."
    return CancelRequested(**run.stamp(at), by="deadline", reason=reason)


def ended(run: Run, at: datetime, finish: Finish) -> TerminalEvent:
    """Return the Event with which the Run ends."""
    why = finish.error or error(ErrorCode.INTERNAL)
    match finish.status:
        case RunStatus.COMPLETED:
            return RunCompleted(
                **run.stamp(at), stop_reason=finish.stop_reason, output=finish.output or ""
            )
        case RunStatus.CANCELLED:
            return RunCancelled(
                **run.stamp(at),
                stop_reason=finish.stop_reason,
                reason=finish.reason,
                error=finish.error,
            )
        case RunStatus.TIMEOUT:
            return RunTimedOut(**run.stamp(at), stop_reason=finish.stop_reason, error=why)
        case _:
            return RunFailed(
                **run.stamp(at), stop_reason=finish.stop_reason, error=why, output=finish.output
            )


def broken(why: RunError) -> Finish:
    """Return the end of a Run in which the engine itself failed."""
    return Finish(RunStatus.FAILED, StopReason.ERROR, error=why)
