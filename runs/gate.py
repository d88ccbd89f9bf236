"""What people are to decide: what is asked, what is let through, what a decision does.

Everything here reads only the latest model Step and the calls it asked for: what came before
is settled. Whatever executes a call checks the same yes once more (`perdure.activities.gate`).
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.runs.actions import About, Action, ActionKind, Approved, Resolution, digest_of
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import DEFAULT_ACTION_S
from perdure.runs.policy import Approval
from perdure.runs.status import WaitingOn
from perdure.runs.steps import Step, ToolCall, error_text
from perdure.runs.transcript import task

if TYPE_CHECKING:
    from perdure.runs.run import Run

SHOWN_CHARS = 200
"""Of what is asked, in `waiting_on`; the action has it in full."""


def latest_calls(run: "Run") -> tuple[ToolCall, ...]:
    """Return the calls of the model's last answer that asked for any, in their order."""
    found: list[ToolCall] = []
    for call in reversed(run.tool_calls):
        if call.model_step < run.tool_calls[-1].model_step:
            break
        found.append(call)
    return tuple(reversed(found))


def requested_calls(run: "Run") -> tuple[ToolCall, ...]:
    """Return those of them that nothing has been done about."""
    return tuple(call for call in latest_calls(run) if call.status == "requested")


def open_actions(run: "Run") -> tuple[Action, ...]:
    """Return what people are to decide now."""
    return tuple(action for action in _actions(run) if action.is_open)


def is_let_through(call: ToolCall) -> bool:
    """Tell whether a requested call may be executed: no person is asked, or one said yes."""
    if call.policy.kind == "question":
        return False
    return call.policy.approval is None or (call.action is not None and call.action.is_approved)


def has_to_ask(run: "Run") -> bool:
    """Tell whether people are to be asked something that they have not been asked yet."""
    return next(_unasked(run), None) is not None


def asked(run: "Run", at: datetime) -> tuple[Action, ...]:
    """Return what people are to be asked, as the actions that they decide."""
    actions: list[Action] = []
    for number, (about, subject) in enumerate(_unasked(run), start=run.actions_asked + 1):
        action_id = f"action_{number}"
        if isinstance(subject, Step):
            actions.append(_about_step(run, action_id, about, subject, at))
        else:
            actions.append(_about_call(run, action_id, about, subject, at))
    return tuple(actions)


def waiting(run: "Run") -> WaitingOn | None:
    """Return that a Run waits for people to decide, if it does."""
    actions = open_actions(run)
    if not actions:
        return None
    ends = [action.expires_at for action in actions if action.expires_at is not None]
    return WaitingOn(
        type="approval" if any(a.kind == "approval" for a in actions) else "input",
        since=min(action.asked_at for action in actions),
        expires_at=min(ends, default=None),
        detail="; ".join(_in_short(action) for action in actions)[:SHOWN_CHARS],
        action_ids=tuple(action.action_id for action in actions),
    )


def due(run: "Run") -> Action | None:
    """Return the open action that expires next."""
    ending = [action for action in open_actions(run) if action.expires_at is not None]
    return min(ending, key=lambda action: (action.expires_at, action.action_id), default=None)


def required(run: "Run", actions: tuple[Action, ...]) -> dict[str, Any]:
    """Return what changes when people are asked."""
    by_call = {action.call_id: action for action in actions if action.call_id is not None}
    calls = tuple(
        call.model_copy(update={"action": by_call[call.call_id]})
        if call.call_id in by_call and call.model_step == run.tool_calls[-1].model_step
        else call
        for call in run.tool_calls
    )
    steps = run.steps
    for action in actions:
        if action.call_id is None:
            steps = _with_action(steps, action)
    changed = run.model_copy(update={"tool_calls": calls, "steps": steps})
    return {
        "tool_calls": calls,
        "steps": steps,
        "actions_asked": run.actions_asked + len(actions),
        "waiting_on": waiting(changed),
    }


def resolved(run: "Run", action_id: str, resolution: Resolution) -> dict[str, Any]:
    """Return what changes when an action is decided.

    Decisions on different actions may come in any order: nothing here depends on it.
    """
    calls = tuple(
        _decided(call, resolution)
        if call.action is not None and call.action.action_id == action_id
        else call
        for call in run.tool_calls
    )
    steps = tuple(
        step.model_copy(update={"action": step.action.resolved(resolution)})
        if step.action is not None and step.action.action_id == action_id
        else step
        for step in run.steps
    )
    said = sum(len(call.result or "") for call in calls)
    said -= sum(len(call.result or "") for call in run.tool_calls)
    changes: dict[str, Any] = {
        "tool_calls": calls,
        "steps": steps,
        "transcript_chars": run.transcript_chars + said,
    }
    if run.waiting_on is not None and run.waiting_on.type in ("approval", "input"):
        changes["waiting_on"] = waiting(run.model_copy(update=changes))
    return changes


def approved(run_id: str, call: ToolCall) -> Approved | None:
    """Return a person's yes to a call, for whatever executes it."""
    action = call.action
    if action is None or action.resolution is None or not action.is_approved:
        return None
    arguments = executed_arguments(call)
    return Approved(
        action_id=action.action_id,
        digest=digest_of(run_id, action.action_id, call.name, arguments),
        by=action.resolution.by,
        edited=action.resolution.arguments is not None,
    )


def executed_arguments(call: ToolCall) -> str:
    """Return what a call is executed with: what the model wrote, or what a person made of it."""
    resolution = call.action.resolution if call.action is not None else None
    if resolution is None or resolution.arguments is None:
        return call.arguments
    return resolution.arguments


def _actions(run: "Run") -> Iterator[Action]:
    step = _latest_model_step(run)
    if step is not None and step.action is not None:
        yield step.action
    for call in latest_calls(run):
        if call.action is not None:
            yield call.action


def _unasked(run: "Run") -> Iterator[tuple[About, ToolCall | Step]]:
    step = _latest_model_step(run)
    if step is not None and step.review is not None and step.action is None:
        yield ("output" if step.status == "completed" else "input"), step
    for call in latest_calls(run):
        if call.status == "requested" and call.action is None:
            if call.policy.approval is not None or call.policy.kind == "question":
                yield "call", call
        elif run.on_unknown == "ask" and _is_unknown(call):
            yield "outcome", call


def _is_unknown(call: ToolCall) -> bool:
    if call.error is None or call.error.code is not ErrorCode.OUTCOME_UNKNOWN:
        return False
    return call.action is None or call.action.about != "outcome"


def _latest_model_step(run: "Run") -> Step | None:
    for step in reversed(run.steps[run.copied_steps :]):
        if step.kind == "model":
            return step
    return None


def _about_call(run: "Run", action_id: str, about: About, call: ToolCall, at: datetime) -> Action:
    kind: ActionKind = "approval"
    reason = call.policy.approval.reason if call.policy.approval is not None else ""
    patience = call.policy.approval.expires_s if call.policy.approval is not None else None
    choices: tuple[str, ...] = ()
    if about == "outcome":
        kind, reason = "input", f"{call.error.message if call.error else ''} What happened?"
        patience = run.timeouts.action_s or DEFAULT_ACTION_S
    elif call.policy.kind == "question":
        kind, patience = "input", call.policy.timeout_s
        reason, choices = _question(call.arguments)
    return Action(
        action_id=action_id,
        kind=kind,
        about=about,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        reason=reason,
        choices=choices,
        digest=digest_of(run.run_id, action_id, call.name, call.arguments),
        asked_at=at,
        expires_at=None if patience is None else at + timedelta(seconds=patience),
    )


def _about_step(run: "Run", action_id: str, about: About, step: Step, at: datetime) -> Action:
    review = step.review or Approval()
    what = task(run) if about == "input" else step.text or ""
    return Action(
        action_id=action_id,
        kind="approval",
        about=about,
        name=run.agent,
        reason=review.reason,
        digest=digest_of(run.run_id, action_id, run.agent, what),
        asked_at=at,
        expires_at=None if review.expires_s is None else at + timedelta(seconds=review.expires_s),
    )


def _question(arguments: str) -> tuple[str, tuple[str, ...]]:
    """Return the question and the choices of a call that asks a person."""
    asked: dict[str, Any] = json.loads(arguments)
    return str(asked.get("question", "")), tuple(str(each) for each in asked.get("choices") or ())


def _with_action(steps: tuple[Step, ...], action: Action) -> tuple[Step, ...]:
    for index in range(len(steps) - 1, -1, -1):
        if steps[index].kind == "model":
            step = steps[index].model_copy(update={"action": action})
            return (*steps[:index], step, *steps[index + 1 :])
    return steps


def _decided(call: ToolCall, resolution: Resolution) -> ToolCall:
    action = call.action
    if action is None:
        return call
    update: dict[str, Any] = {"action": action.resolved(resolution)}
    if action.about == "outcome":
        if resolution.verdict == "answered":
            told = f"{call.result}\nA person says what happened: {resolution.answer}"
            update["result"] = told
    elif resolution.verdict == "answered":
        update |= {"status": "completed", "result": resolution.answer or ""}
    elif resolution.verdict != "approved":
        why = _refusal(call, resolution)
        update |= {"status": "rejected", "error": why, "result": error_text(why)}
    return call.model_copy(update=update)


def _refusal(call: ToolCall, resolution: Resolution) -> RunError:
    is_question = call.policy.kind == "question"
    if resolution.verdict == "expired":
        nobody = "answered" if is_question else "approved this call; it was not executed"
        return error(ErrorCode.ACTION_EXPIRED, f"In time, nobody {nobody}.")
    did = "would not answer" if is_question else "rejected this call; it was not executed"
    note = f" They say: {resolution.note}" if resolution.note else ""
    return error(ErrorCode.ACTION_REJECTED, f"A person {did}.{note}")


def _in_short(action: Action) -> str:
    if action.kind == "input":
        return action.reason
    if action.about != "call":
        return f"{action.about} of {action.name}"
    return f"{action.name}({action.arguments})"
