"""What happened, as the next Event of a Run.

The workflow records with these what it does, and the projection of its history records with
the same ones what it reads: that is why both get the same Run.
"""

from datetime import datetime

from perdure.runs import gate
from perdure.runs.actions import Resolution
from perdure.runs.contract import Resumption
from perdure.runs.decide import CallModel, Finish, HandOff, Pause, decide
from perdure.runs.errors import (
    ErrorCode,
    IllegalEvent,
    InvalidRequest,
    RunAlreadyTerminal,
    RunError,
    error,
)
from perdure.runs.events import (
    ActionRequired,
    ActionResolved,
    CancelMode,
    CancelRequested,
    HandedOff,
    LimitsRaised,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
    RunTimedOut,
    RunUnpaused,
    StepCompleted,
    StepFailed,
    StepStarted,
    StoppedBy,
    TerminalEvent,
)
from perdure.runs.limits import Limits
from perdure.runs.run import Run
from perdure.runs.start import RunStart, SessionShare
from perdure.runs.status import RunStatus, StopReason, WaitingOn
from perdure.runs.steps import Reply


def queued(run_id: str, start: RunStart, at: datetime) -> RunQueued:
    """Return the first Event of a Run."""
    return RunQueued(run_id=run_id, sequence_number=0, at=at, start=start)


def started(run: Run, at: datetime, share: SessionShare | None = None) -> RunStarted:
    """Return the Event that says a worker has the Run, and, after a wait, its Session lets it."""
    return RunStarted(**run.stamp(at), share=share)


def resumed(run: Run, at: datetime, resumption: Resumption) -> RunResumed:
    """Return the Event with which an ended Run goes on."""
    return RunResumed(
        **run.stamp(at),
        ended=run.status,
        limits=resumption.limits,
        timeouts=resumption.timeouts,
        budget=resumption.budget,
    )


def model_step_started(run: Run, at: datetime, call: CallModel) -> StepStarted:
    """Return the Event that starts a model call."""
    return StepStarted(
        **run.stamp(at),
        step=len(run.steps) + 1,
        kind="model",
        name=run.agent,
        turn=call.turn,
        purpose=call.purpose,
        model=call.model,
        limit=call.limit,
    )


def tool_step_started(
    run: Run, at: datetime, name: str, call_id: str, child_run_id: str | None = None
) -> StepStarted:
    """Return the Event that starts the execution of a tool call of this turn."""
    return StepStarted(
        **run.stamp(at),
        step=len(run.steps) + 1,
        kind="tool",
        name=name,
        turn=run.turn,
        call_id=call_id,
        child_run_id=child_run_id,
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


def paused(run: Run, at: datetime) -> RunPaused:
    """Return the Event with which a Run begins to wait for a person.

    Raises:
        IllegalEvent: When it does not wait for anybody.
    """
    decision = decide(run)
    if not isinstance(decision, Pause):
        raise IllegalEvent(f"Run {run.run_id!r} has nobody to wait for.")
    if decision.limit is None:
        waiting_on = WaitingOn(type="pause", since=at, detail=decision.reason)
    else:
        waiting_on = WaitingOn(type="limit", since=at, detail=decision.limit.message)
    return RunPaused(**run.stamp(at), waiting_on=waiting_on)


def unpaused(run: Run, at: datetime) -> RunUnpaused:
    """Return the Event with which a Run goes on that waited for a person."""
    return RunUnpaused(**run.stamp(at))


def action_required(run: Run, at: datetime) -> ActionRequired:
    """Return the Event with which people are asked to decide something.

    Raises:
        IllegalEvent: When there is nothing to ask.
    """
    actions = gate.asked(run, at)
    if not actions:
        raise IllegalEvent(f"Run {run.run_id!r} has nothing to ask.")
    return ActionRequired(**run.stamp(at), actions=actions)


def action_expired(run: Run, at: datetime) -> ActionResolved:
    """Return the Event with which the action that was to expire next does.

    Raises:
        IllegalEvent: When none is to.
    """
    action = gate.due(run)
    if action is None:
        raise IllegalEvent(f"Run {run.run_id!r} has no action that expires.")
    expired = Resolution(verdict="expired", at=at)
    return ActionResolved(**run.stamp(at), action_id=action.action_id, resolution=expired)


def handed_off(run: Run, at: datetime) -> HandedOff:
    """Return the Event with which another agent goes on.

    Raises:
        IllegalEvent: When none is to.
    """
    decision = decide(run)
    if not isinstance(decision, HandOff):
        raise IllegalEvent(f"Run {run.run_id!r} is not to be handed off.")
    return HandedOff(**run.stamp(at), agent=decision.agent, call_id=decision.call_id)


def waiting_changed(
    run: Run, at: datetime, waits_on: str
) -> RunPaused | RunUnpaused | ActionRequired | ActionResolved | None:
    """Return the Event that the workflow recorded when it indexed what the Run waits on.

    Args:
        run: The Run so far.
        at: When.
        waits_on: What was indexed: a type of `waiting_on`, nothing, or that a wait for people
            has ended.
    """
    if waits_on == EXPIRED:
        return action_expired(run, at)
    if waits_on in ("pause", "limit"):
        return paused(run, at)
    if run.waiting_on is not None and run.waiting_on.type in ("pause", "limit"):
        return unpaused(run, at)
    return action_required(run, at) if waits_on and gate.has_to_ask(run) else None


EXPIRED = "expired"
"""What a Run waits on in the moment in which its wait for people ends, as it is indexed."""


def limits_raised(run: Run, at: datetime, limits: Limits) -> LimitsRaised:
    """Return the Event that changes what a Run may use."""
    return LimitsRaised(**run.stamp(at), limits=limits)


def check_limits(run: Run, limits: Limits) -> None:
    """Refuse limits with which the Run would go on as if nothing had happened.

    Raises:
        RunAlreadyTerminal: When the Run has ended.
        InvalidRequest: When it waits for a limit to be raised, and this is not enough.
    """
    if run.status.is_terminal:
        raise RunAlreadyTerminal(
            f"Run {run.run_id!r} has ended: {run.status}.",
            hint="One that has not completed can be resumed with other limits.",
        )
    if run.waiting_on is None or run.waiting_on.type != "limit":
        return
    after = decide(run.model_copy(update={"limits": limits.over(run.limits)}))
    if isinstance(after, Pause) and after.limit is not None:
        raise InvalidRequest(f"That is not enough: {after.limit.message}", hint=after.limit.hint)


def cancel_requested(
    run: Run, at: datetime, reason: str, mode: CancelMode = "now", by: StoppedBy = "user"
) -> CancelRequested | None:
    """Return the Event that stops a Run, or none when that changes nothing.

    A Run that is to stop after its Step can still be told to stop now; one whose turn has not
    come in time, to stop even if it does come in the same moment.
    """
    if run.status.is_terminal:
        return None
    if run.cancel is not None and run.cancel.by != "queue":
        if run.cancel.is_urgent or mode == "after_step":
            return None
    return CancelRequested(**run.stamp(at), by=by, mode=mode, reason=reason)


def deadline_passed(run: Run, at: datetime) -> CancelRequested | None:
    """Return the Event that stops a Run whose time is up, or none as above."""
    if run.status.is_terminal or (run.cancel is not None and run.cancel.is_urgent):
        return None
    reason = f"The Run may take {run.timeouts.run_s:g} s."
    return CancelRequested(**run.stamp(at), by="deadline", reason=reason)


def queue_expired(run: Run, at: datetime) -> CancelRequested | None:
    """Return the Event that stops a Run whose turn did not come in time, or none as above."""
    if run.status is not RunStatus.PENDING or run.cancel is not None:
        return None
    return CancelRequested(**run.stamp(at), by="queue", reason="Its turn did not come in time.")


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
