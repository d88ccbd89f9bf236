"""How people's decisions reach a Run: which are taken, and the Event they become.

`check_resolution` is asked before anything is recorded, by the client and by the workflow. What
was taken becomes an Event whatever else came in the same moment, the action's expiry included.
"""

from datetime import datetime

from perdure.runs import gate
from perdure.runs.actions import Action, Resolution
from perdure.runs.contract import ResolveActionRequest
from perdure.runs.errors import (
    ActionAlreadyResolved,
    ActionNotFound,
    ErrorCode,
    InvalidRequest,
    RunAlreadyTerminal,
)
from perdure.runs.events import ActionResolved
from perdure.runs.limits import MAX_REASON_BYTES, MAX_RESULT_BYTES
from perdure.runs.model_json import parsed
from perdure.runs.run import Run

MAX_BY_CHARS = 128
"""The name of whoever decides."""


def find_action(run: Run, asked: str) -> Action:
    """Return an action by its id, or by that of its tool call, the latest one.

    Raises:
        ActionNotFound: When the Run has none.
    """
    actions = [step.action for step in run.steps if step.action is not None]
    actions += [call.action for call in run.tool_calls if call.action is not None]
    for action in reversed(actions):
        if asked in (action.action_id, action.call_id):
            return action
    waits = ", ".join(action.action_id for action in gate.open_actions(run)) or "none"
    raise ActionNotFound(
        f"Run {run.run_id!r} has no action {asked[:80]!r}; open: {waits}.",
        hint="`perdure approvals` lists what waits for a person.",
    )


def check_resolution(run: Run, request: ResolveActionRequest, now: datetime) -> bool:
    """Refuse a decision that can't be taken; tell whether the very same was taken before.

    Raises:
        ActionNotFound: When the Run has no such action.
        ActionAlreadyResolved: When it was decided otherwise, or has expired.
        RunAlreadyTerminal: When the Run has ended or is being stopped.
        InvalidRequest: When the decision does not suit the action, or was made on another one.
    """
    action = find_action(run, request.action_id)
    if action.resolution is not None and _is_same(action.resolution, request.resolution):
        return True
    if action.resolution is not None:
        by = f" by {action.resolution.by}" if action.resolution.by else ""
        raise ActionAlreadyResolved(
            f"Action {action.action_id!r} of Run {run.run_id!r} was "
            f"{action.resolution.verdict}{by}.",
            hint="A decision is taken once.",
        )
    if run.status.is_terminal or run.cancel is not None:
        how = run.status.value if run.status.is_terminal else "being stopped"
        raise RunAlreadyTerminal(
            f"Run {run.run_id!r} is {how}.", hint="There is nothing left to decide."
        )
    if action.expires_at is not None and now >= action.expires_at:
        raise ActionAlreadyResolved(
            f"Action {action.action_id!r} of Run {run.run_id!r} has expired.",
            hint="It counts as rejected; the model may ask again.",
        )
    if request.digest != action.digest:
        raise InvalidRequest(
            f"Action {action.action_id!r} of Run {run.run_id!r} is not the one that was shown.",
            hint="Look at it again, then decide.",
        )
    _check_fit(action, request.resolution)
    return False


def action_resolved(run: Run, at: datetime, request: ResolveActionRequest) -> ActionResolved | None:
    """Return the Event that records a decision, or none when that changes nothing."""
    if run.status.is_terminal:
        return None
    if all(each.action_id != request.action_id for each in gate.open_actions(run)):
        return None
    resolution = request.resolution.model_copy(update={"at": at})
    return ActionResolved(**run.stamp(at), action_id=request.action_id, resolution=resolution)


def _is_same(taken: Resolution, asked: Resolution) -> bool:
    return taken.model_copy(update={"at": None}) == asked.model_copy(update={"at": None})


def _check_fit(action: Action, resolution: Resolution) -> None:
    verdicts = ("approved", "rejected") if action.kind == "approval" else ("answered", "rejected")
    if resolution.verdict not in verdicts:
        way = "approved or rejected" if action.kind == "approval" else "answered or rejected"
        raise InvalidRequest(
            f"Action {action.action_id!r} is an {action.kind}.", hint=f"It is {way}."
        )
    if not resolution.by.strip() or len(resolution.by) > MAX_BY_CHARS:
        raise InvalidRequest(
            "A decision needs the name of whoever takes it.",
            hint=f"Give `by`, 1 to {MAX_BY_CHARS} characters.",
        )
    _check_size("The note", resolution.note, MAX_REASON_BYTES)
    if resolution.verdict == "answered":
        _check_answer(action, resolution.answer)
    elif resolution.answer is not None:
        raise InvalidRequest("Only a question is answered.", hint="Use the note.")
    if resolution.arguments is not None:
        _check_arguments(action, resolution)


def _check_answer(action: Action, answer: str | None) -> None:
    if answer is None or not answer.strip():
        raise InvalidRequest("The answer is empty.", hint="Reject the question not to answer it.")
    _check_size("The answer", answer, MAX_RESULT_BYTES)
    if action.choices and answer not in action.choices:
        known = ", ".join(repr(each) for each in action.choices)
        raise InvalidRequest(f"{answer[:80]!r} is none of the choices.", hint=f"They are: {known}.")


def _check_arguments(action: Action, resolution: Resolution) -> None:
    if action.about != "call" or resolution.verdict != "approved":
        raise InvalidRequest(
            "Only an approved tool call can have other arguments.", hint="Leave `arguments` out."
        )
    text = resolution.arguments or ""
    _check_size("The arguments", text, MAX_RESULT_BYTES)
    try:
        value = parsed(text)
    except ValueError as exc:
        raise InvalidRequest(f"The arguments are not JSON: {exc}.", hint=_OBJECT) from exc
    if not isinstance(value, dict):
        raise InvalidRequest("The arguments are no JSON object.", hint=_OBJECT)


_OBJECT = "Give all arguments of the call as one JSON object."


def _check_size(what: str, text: str, allowed: int) -> None:
    size = len(text.encode())
    if size > allowed:
        raise InvalidRequest(
            f"{what} has {size:,} bytes; {allowed:,} are allowed.",
            hint="Say it in fewer words.",
            code=ErrorCode.PAYLOAD_TOO_LARGE,
        )
