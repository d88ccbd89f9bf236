"""What people tell a Run that is going on: which messages and pauses it takes, as which Events.

The `check_…` functions are asked before anything is recorded, by the client and by the workflow.
What makes an Event here may depend only on what every reader of the history knows at that point:
a request that the workflow took is never refused by the projection, nor the other way round.
"""

from datetime import datetime

from perdure.runs.contract import MessageRequest, PauseRequest
from perdure.runs.errors import ErrorCode, InvalidRequest, PerdureError, RunAlreadyTerminal
from perdure.runs.events import MessageAccepted, PauseRequested, UnpauseRequested
from perdure.runs.files import MAX_RUN_FILES, FileRef, chars
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_TRANSCRIPT_BYTES
from perdure.runs.run import Run
from perdure.runs.start import FollowUp
from perdure.runs.status import RunStatus


def check_message(run: Run, request: MessageRequest) -> bool:
    """Refuse a message that the Run can't take; tell whether it has it already.

    Raises:
        RunAlreadyTerminal: When the Run has ended, is being stopped or concludes at a limit.
        InvalidRequest: When the message is empty or too large, the Run's messages are too many
            or too long with it, or its id stands for another one.
    """
    said = _said(run, request.message_id)
    if said is not None and said.text == request.text and _same(said.files, request.files):
        return True
    if said is not None:
        raise InvalidRequest(
            f"Run {run.run_id!r} has another message {request.message_id!r}.",
            hint="Choose an id for each message, or leave it to us.",
        )
    hint = _not_taken(run)
    _check_goes_on(run, hint)
    refused = _refusal(run, request)
    if refused is not None:
        raise refused
    size = run.transcript_chars + len(request.text) + chars(request.files)
    if size > MAX_TRANSCRIPT_BYTES:
        whole = "The Run's text with the message"
        raise _too_much(whole, size, MAX_TRANSCRIPT_BYTES, "characters", hint)
    return False


def message_accepted(run: Run, at: datetime, request: MessageRequest) -> MessageAccepted | None:
    """Return the Event that records a message, or none for one that the Run can't take or has."""
    if run.status.is_terminal or _said(run, request.message_id) is not None:
        return None
    if _refusal(run, request) is not None:
        return None
    return MessageAccepted(
        **run.stamp(at),
        message_id=request.message_id,
        text=request.text,
        files=request.files,
    )


def check_pause(run: Run) -> bool:
    """Refuse to pause a Run that stops; tell whether it is paused already.

    Raises:
        RunAlreadyTerminal: When the Run has ended or is being stopped.
    """
    _check_goes_on(run, "There is nothing left to pause.")
    return run.pause_reason is not None


def pause_requested(run: Run, at: datetime, request: PauseRequest) -> PauseRequested | None:
    """Return the Event that pauses a Run, or none when that changes nothing."""
    if run.status.is_terminal or run.pause_reason is not None:
        return None
    return PauseRequested(**run.stamp(at), reason=request.reason)


def check_unpause(run: Run) -> bool:
    """Refuse to let a Run go on that stops; tell whether it is not paused anyway.

    Raises:
        RunAlreadyTerminal: When the Run has ended or is being stopped.
    """
    _check_goes_on(run, "One that has not completed can be resumed.")
    return run.pause_reason is None


def unpause_requested(run: Run, at: datetime) -> UnpauseRequested | None:
    """Return the Event that lets a paused Run go on, or none when that changes nothing."""
    if run.status.is_terminal or run.pause_reason is None:
        return None
    return UnpauseRequested(**run.stamp(at))


def _said(run: Run, message_id: str) -> FollowUp | None:
    return next((each for each in run.follow_ups if each.message_id == message_id), None)


def _same(said: tuple[FileRef, ...], again: tuple[FileRef, ...]) -> bool:
    return [file.identity for file in said] == [file.identity for file in again]


def _given(run: Run) -> int:
    return len(run.input_files) + sum(len(each.files) for each in run.follow_ups)


def _refusal(run: Run, request: MessageRequest) -> PerdureError | None:
    if not is_valid_id(request.message_id):
        return InvalidRequest(
            f"{request.message_id[:80]!r} can't name a message.",
            hint="Use 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit.",
        )
    if not request.text.strip() and not request.files:
        return InvalidRequest("The message is empty.", hint="Say what the agent is to hear.")
    size = len(request.text.encode())
    if size > MAX_MESSAGE_BYTES:
        hint = "Pass large data by reference, through a tool."
        return _too_much("The message", size, MAX_MESSAGE_BYTES, "bytes", hint)
    if len(request.files) + _given(run) > MAX_RUN_FILES:
        hint = "Start a new Run, or let a tool read them."
        return _too_much("The Run", len(request.files) + _given(run), MAX_RUN_FILES, "files", hint)
    if run.limit_reached is not None:
        # It would be answered beyond the limit, or not at all.
        return RunAlreadyTerminal(
            f"Run {run.run_id!r} concludes: {run.limit_reached.message}", hint=_not_taken(run)
        )
    if len(run.follow_ups) >= MAX_MESSAGES:
        return InvalidRequest(
            f"Run {run.run_id!r} has had {MAX_MESSAGES:,} messages; no more are allowed.",
            hint=_not_taken(run),
            code=ErrorCode.PAYLOAD_TOO_LARGE,
        )
    return None


def _check_goes_on(run: Run, hint: str) -> None:
    if run.status.is_terminal:
        raise RunAlreadyTerminal(f"Run {run.run_id!r} has ended: {run.status}.", hint=hint)
    if run.cancel is not None:
        raise RunAlreadyTerminal(f"Run {run.run_id!r} is being stopped.", hint=hint)


def _not_taken(run: Run) -> str:
    resume = "" if run.status is RunStatus.COMPLETED else "resume the Run and send it again, "
    return (
        f"It was not recorded: {resume}fork the Run with it "
        f"(`perdure fork {run.run_id} --message …`), or start a new one."
    )


def _too_much(what: str, size: int, allowed: int, unit: str, hint: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} has {size:,} {unit}; {allowed:,} are allowed.",
        hint=hint,
        code=ErrorCode.PAYLOAD_TOO_LARGE,
    )
