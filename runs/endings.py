"""What stopping, ending and resuming do to a Run: `Run.apply` asks here.

The receipt of a cancel is made when the Run ends, of how its Steps ended, not while requests
and results come in: a workflow and its history can have these in different order.
"""

import json
from typing import TYPE_CHECKING, Any

from perdure.runs.actions import Resolution
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.events import Cancel, CancelRequested, RunCompleted, RunResumed, TerminalEvent
from perdure.runs.steps import STOPPED_CODES, Step, ToolCall
from perdure.runs.transcript import last_answer

if TYPE_CHECKING:
    from perdure.runs.run import Run


def stopped(before: Cancel | None, event: CancelRequested) -> Cancel:
    """Return what the Run keeps of a request to stop.

    The first one counts; a later one can only make it more urgent. That its turn did not come
    in time is no request of anybody's.
    """
    if before is not None and before.by != "queue":
        return before.model_copy(update={"mode": event.mode})
    return Cancel(requested_at=event.at, by=event.by, mode=event.mode, reason=event.reason)


def ended(run: "Run", event: TerminalEvent, output: str | None = None) -> dict[str, Any]:
    """Return what changes when a Run ends."""
    steps = _settled_steps(run, event)
    calls = settled_calls(run)
    return calls | {
        "completed_at": event.at,
        "stop_reason": event.stop_reason,
        "output": output,
        "output_parsed": _parsed(run, output),
        "error": None if isinstance(event, RunCompleted) else event.error,
        "steps": steps,
        "current_step": None,
        "waiting_on": None,
        "pause_reason": None,
        "cancel": run.cancel and _receipt(run.cancel, steps, calls["tool_calls"]),
    }


def settled_calls(run: "Run", why: RunError | None = None) -> dict[str, Any]:
    """Return what changes when nobody will execute the open calls any more.

    Args:
        run: The Run so far.
        why: What the model is told of them; that the Run ended, when not given.
    """
    calls = tuple(call.settled(why) for call in run.tool_calls)
    told = sum(
        len(call.result or "")
        for call, before in zip(calls, run.tool_calls, strict=True)
        if not before.is_settled
    )
    return {"tool_calls": calls, "transcript_chars": run.transcript_chars + told}


def resumed(run: "Run", event: RunResumed) -> dict[str, Any]:
    """Return what changes when an ended Run goes on.

    Calls that were stopped are executed again where that is safe; where it is not, the model
    keeps being told that nobody knows.
    """
    answer = last_answer(run)
    untold = answer.number if answer is not None and not _replaced(run, answer) else None
    calls = tuple(
        _gone_on_with(call) if call.model_step == untold else call for call in run.tool_calls
    )
    # What a person refused, or nobody decided, is asked again.
    steps = tuple(
        step.model_copy(update={"action": None})
        if step.action is not None and not step.action.is_approved
        else step
        for step in run.steps
    )
    return {
        "steps": steps,
        "completed_at": None,
        "stop_reason": None,
        "output": None,
        "output_parsed": None,
        "error": None,
        "cancel": None,
        "limit_reached": None,
        "limits": event.limits.over(run.limits),
        "timeouts": event.timeouts.over(run.timeouts),
        "budget": event.budget,
        "tool_calls": calls,
        "resumed_step": len(run.steps),
        "resumed_at": event.at,
    }


def _gone_on_with(call: ToolCall) -> ToolCall:
    if call.may_run_again:
        return call.requested_again()
    resolution = call.action.resolution if call.action is not None else None
    if resolution is not None and resolution.verdict == "cancelled":
        # What nobody has said of its outcome, somebody may say now.
        return call.model_copy(update={"action": None})
    return call


def _parsed(run: "Run", output: str | None) -> Any:
    answer = last_answer(run)
    if answer is None or not answer.structured or output is None or output != answer.text:
        return None  # e.g. the beginning of a later answer that was cut
    return json.loads(output)


def _replaced(run: "Run", answer: Step) -> bool:
    """Tell whether a fork's message stands in the place of the calls of this answer."""
    own = (each for each in run.follow_ups if not each.message_id)
    return any(each.after_step >= answer.number for each in own)


def _settled_steps(run: "Run", event: TerminalEvent) -> tuple[Step, ...]:
    """Return the Steps with none left running: whoever terminates a Run does not ask them."""
    nobody = Resolution(verdict="cancelled")
    steps = tuple(
        step.model_copy(update={"action": step.action.resolved(nobody)})
        if step.action is not None and step.action.is_open
        else step
        for step in run.steps
    )
    if run.current_step is None:
        return steps
    why = error(ErrorCode.CANCELLED, "The Run ended while the Step was running.")
    end = {"status": "cancelled", "error": why, "completed_at": event.at}
    return tuple(
        step.model_copy(update=end) if step.status == "running" else step for step in steps
    )


def _receipt(cancel: Cancel, steps: tuple[Step, ...], calls: tuple[ToolCall, ...]) -> Cancel:
    last = next((step for step in reversed(steps) if step.kind != "check"), None)
    aborted = None
    said = 0
    if last is not None and last.kind == "model" and last.status == "cancelled":
        said = len(last.text or "")
        if last.completed_at is not None:
            took = last.completed_at - cancel.requested_at
            aborted = max(0, int(took.total_seconds() * 1000))
    turn = last.turn if last is not None else 0
    told = [
        call
        for call in calls
        if call.step is not None
        and call.error is not None
        and call.error.code in STOPPED_CODES
        and steps[call.step - 1].turn == turn
    ]
    unknown = [c for c in told if c.error and c.error.code is ErrorCode.OUTCOME_UNKNOWN]
    return cancel.model_copy(
        update={
            "model_aborted_after_ms": aborted,
            "tools_running": tuple(call.call_id for call in told),
            "outcome_unknown": tuple(call.call_id for call in unknown),
            "partial_output_chars": said,
        }
    )
