"""Where a fork begins: a Run as it stood after one of its Steps."""

from perdure.runs.errors import ErrorCode, InvalidRequest, error
from perdure.runs.files import FileRef
from perdure.runs.inputs import as_told, changes_inputs
from perdure.runs.run import Run
from perdure.runs.start import Checkpoint, FollowUp
from perdure.runs.steps import ToolCall
from perdure.runs.transcript import last_answer


def checkpoint(
    run: Run, step: int, message: str | None = None, files: tuple[FileRef, ...] = ()
) -> Checkpoint:
    """Return what a fork takes over: everything up to a Step, and what is said instead.

    Calls that had been asked for by then, but executed later, are executed by the fork; with a
    message they are not, and the model is told.

    Args:
        run: The original; stays as it is.
        step: The last Step that is taken over; 0 takes nothing but the opening.
        message: What the user says at that point.
        files: What that comes with.

    Raises:
        InvalidRequest: When there is no such Step, or one up to it is still running.
    """
    if not 0 <= step <= len(run.steps):
        raise InvalidRequest(
            f"Run {run.run_id!r} has no Step {step}; it has {len(run.steps)}.",
            hint=f"`perdure steps {run.run_id}` shows them.",
        )
    steps = run.steps[:step]
    if any(each.status == "running" for each in steps):
        raise InvalidRequest(
            f"Run {run.run_id!r} is still executing Steps up to {step}.",
            hint="Fork from an earlier Step, or wait.",
        )
    asked = [call for call in run.tool_calls if call.model_step <= step]
    answer = last_answer(run.model_copy(update={"steps": steps}))
    latest = answer.number if answer is not None else 0
    calls = [_as_of(call, step) if call.model_step == latest else call for call in asked]
    # What was said at that very point stays, unless something else is said instead.
    last = step - 1 if message is not None else step
    follow_ups = tuple(as_told(each, steps) for each in run.follow_ups if each.after_step <= last)
    if message is not None and step > 0:
        calls = [call.settled(_NOT_EXECUTED) for call in calls]
        follow_ups += (FollowUp(after_step=step, text=message, files=files),)
    return Checkpoint(
        steps=steps,
        tool_calls=tuple(calls),
        follow_ups=follow_ups,
        told_input=run.told_input if any(map(changes_inputs, steps)) else None,
        compactions=tuple(each for each in run.compactions if each.step <= step),
        actions_asked=run.actions_asked,
    )


def agent_at(run: Run, step: int) -> str:
    """Return the agent that a Run was after one of its Steps: it may have been handed over."""
    handed = [
        call.policy.target
        for call in run.tool_calls
        if call.policy.kind == "handoff" and call.status == "completed" and call.model_step <= step
    ]
    return (handed[-1] if handed else None) or run.first_agent or run.agent


_NOT_EXECUTED = error(
    ErrorCode.CANCELLED, "The user said something else before this call was executed."
)


def _as_of(call: ToolCall, step: int) -> ToolCall:
    never = call.step is None and call.status == "cancelled"
    if never or (call.step or 0) > step or (call.action is not None and call.step is None):
        # What a person decided was decided for the original.
        return call.requested_again().model_copy(update={"action": None})
    if call.action is not None and call.action.is_open:
        return call.model_copy(update={"action": None})
    return call
