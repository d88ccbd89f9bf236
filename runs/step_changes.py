"""What the Events of a Step, and messages between Steps, do to a Run: `Run.apply` asks here.

Each function returns the fields that change. Parallel Steps may end in any order: nothing here
may depend on it, because a workflow and its history can have two in different order.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perdure.runs.checked import Judged
from perdure.runs.codes import UNKNOWN_USAGE
from perdure.runs.endings import settled_calls
from perdure.runs.errors import IllegalEvent, RunError
from perdure.runs.events import (
    HandedOff,
    MessageAccepted,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from perdure.runs.files import chars
from perdure.runs.inputs import inputs_changed
from perdure.runs.start import Compaction, FollowUp
from perdure.runs.status import RunStatus
from perdure.runs.steps import (
    ModelReply,
    Reply,
    Step,
    ToolCall,
    ToolReply,
    error_text,
    was_stopped,
)
from perdure.runs.transcript import cut, last_executed

if TYPE_CHECKING:
    from perdure.runs.run import Run


def step_started(run: "Run", event: StepStarted) -> dict[str, Any]:
    """Return what changes when a Step starts.

    Raises:
        IllegalEvent: When the Run does not run, or the Step is not the next one.
    """
    if run.status is not RunStatus.RUNNING or event.step != len(run.steps) + 1:
        raise IllegalEvent(
            f"Run {run.run_id!r} ({run.status}) can't start Step {event.step} "
            f"after {len(run.steps)} Steps."
        )
    step = Step(
        number=event.step,
        kind=event.kind,
        turn=event.turn,
        purpose=event.purpose,
        name=event.name,
        call_id=event.call_id,
        child_run_id=event.child_run_id,
        started_at=event.at,
    )
    changes: dict[str, Any] = {
        "steps": (*run.steps, step),
        "current_step": event.step,
        "turn": event.turn,
    }
    if event.model is not None:
        changes["model"] = event.model
    if event.call_id is not None:
        running = {"status": "running", "step": event.step}
        changes["tool_calls"] = _with_call(run, event.call_id, running)
    elif event.purpose == "conclude":
        # What the model had asked for and may not have is answered before it is called again.
        changes["limit_reached"] = event.limit
        changes |= settled_calls(run, event.limit)
        changes["waiting_on"] = None
    return changes


def step_ended(
    run: "Run", event: StepCompleted | StepFailed, reply: Reply | None, why: RunError | None
) -> dict[str, Any]:
    """Return what changes when a Step ends.

    Args:
        run: The Run so far.
        event: That it ended.
        reply: What its activity brought, if anything.
        why: What went wrong, if anything.

    Raises:
        IllegalEvent: When the Step is not running.
    """
    step = _running_step(run, event.step)
    ended: dict[str, Any] = {"completed_at": event.at, "error": why, "status": "completed"}
    if isinstance(event, StepFailed):
        ended["status"] = "cancelled" if was_stopped(why, reply) else "failed"
    if reply is not None:
        ended["attempt"] = reply.attempt
    elif why is not None and why.attempt is not None:
        ended["attempt"] = why.attempt
    changes: dict[str, Any] = {}
    if step.kind == "tool":
        text = reply.text if isinstance(reply, ToolReply) else error_text(why) if why else ""
        full = reply.full if isinstance(reply, ToolReply) else None
        brought = reply.files if isinstance(reply, ToolReply) else ()
        settled = {"status": ended["status"], "result": text, "error": why, "full": full}
        settled["files"] = brought
        changes["tool_calls"] = _with_call(run, step.call_id or "", settled)
        changes["usage"] = run.usage.plus_tool_call()
        if isinstance(reply, ToolReply) and reply.usage is not None:
            ended["child_usage"] = reply.usage
            changes["usage"] = changes["usage"].plus_run(reply.usage)
        changes["transcript_chars"] = run.transcript_chars + len(text) + chars(brought)
    elif isinstance(reply, ModelReply):
        ended |= {"name": reply.model, "text": reply.said} | reply.of_step
        changes = _model_answered(run, step, reply)
        if step.purpose == "compact" and ended["status"] == "completed":
            summed_up = Compaction(step=step.number, up_to=cut(run) or 0, summary=reply.said or "")
            changes["compactions"] = (*run.compactions, summed_up)
    elif why is not None and why.code in UNKNOWN_USAGE:
        changes["usage"] = run.usage.model_copy(update={"complete": False})
    steps = list(run.steps)
    steps[event.step - 1] = step.model_copy(update=ended)
    if isinstance(reply, ModelReply) and reply.checked is not None:
        steps += _judging(steps[event.step - 1], len(steps), reply.checked.judged)
    changes["steps"] = tuple(steps)
    changes["current_step"] = _latest_running(steps, step.turn)
    return changes


def _judging(step: Step, last: int, judged: Iterable[Judged]) -> list[Step]:
    """Return the Steps of the models that were asked about the input or the output of a Step.

    They were called within its activity, whose reply records them.
    """
    return [
        Step(
            number=number,
            kind="check",
            turn=step.turn,
            name=each.judge,
            status="completed",
            text="passes" if each.passes else f"does not pass: {each.reason}",
            usage=each.usage,
            attempt=step.attempt,
            started_at=step.started_at,
            completed_at=step.completed_at,
        )
        for number, each in enumerate(judged, start=last + 1)
    ]


def handed_off(run: "Run", event: HandedOff) -> dict[str, Any]:
    """Return what changes when another agent goes on: its model, and what that can read."""
    told = f"The conversation goes on with the agent {event.agent!r}."
    calls = _with_call(run, event.call_id, {"status": "completed", "result": told})
    return {
        "agent": event.agent,
        "first_agent": run.first_agent or run.agent,
        "model": None,
        "chosen_model": None,
        "settled": False,
        "tool_calls": calls,
        "transcript_chars": run.transcript_chars + len(told),
    }


def message_accepted(run: "Run", event: MessageAccepted) -> dict[str, Any]:
    """Return what changes when a person says something.

    Its place depends on the Steps that have started, never on which have ended: those of checks
    come only then.
    """
    step = last_executed(run)
    said = FollowUp(
        after_step=step.number if step is not None else 0,
        text=event.text,
        message_id=event.message_id,
        files=event.files,
    )
    return {
        "follow_ups": (*run.follow_ups, said),
        "transcript_chars": run.transcript_chars + len(event.text) + chars(event.files),
    }


def _model_answered(run: "Run", step: Step, reply: ModelReply) -> dict[str, Any]:
    calls = tuple(ToolCall.of(call, step.number) for call in reply.calls)
    said = reply.chars + sum(len(c.arguments) + len(c.result or "") for c in calls)
    usage = run.usage.plus_call(reply.usage)
    changes: dict[str, Any] = {
        "tool_calls": run.tool_calls + calls,
        "transcript_chars": run.transcript_chars + said,
    }
    if reply.checked is not None:
        told, grown = inputs_changed(run, reply.checked.inputs)
        changes |= told
        changes["transcript_chars"] += grown
        for judged in reply.checked.judged:
            usage = usage.plus_call(judged.usage)
    changes["usage"] = usage
    if reply.terms is not None and not run.settled:
        changes |= {
            "limits": run.limits.over(reply.terms.limits),
            "timeouts": run.timeouts.over(reply.terms.timeouts),
            "on_limit": run.on_limit or reply.terms.on_limit,
            "on_unknown": run.on_unknown or reply.terms.on_unknown,
            "context_window": reply.terms.context_window,
            "settled": True,
        }
    return changes


def _running_step(run: "Run", number: int) -> Step:
    if not 1 <= number <= len(run.steps) or run.steps[number - 1].status != "running":
        raise IllegalEvent(f"Step {number} of Run {run.run_id!r} is not running.")
    return run.steps[number - 1]


def _with_call(run: "Run", call_id: str, update: dict[str, Any]) -> tuple[ToolCall, ...]:
    # From the end: some providers use the same ids again in every turn.
    for index in range(len(run.tool_calls) - 1, -1, -1):
        if run.tool_calls[index].call_id == call_id:
            call = run.tool_calls[index].model_copy(update=update)
            return (*run.tool_calls[:index], call, *run.tool_calls[index + 1 :])
    raise IllegalEvent(f"Run {run.run_id!r} has no tool call {call_id!r}.")


def _latest_running(steps: list[Step], turn: int) -> int | None:
    # Only Steps of the latest turn can be running, so a long Run is not searched to its start.
    for step in reversed(steps):
        if step.turn != turn:
            return None
        if step.status == "running":
            return step.number
    return None
