"""Every error a user can meet: one code, one clear sentence, one way out.

    PerdureError            code, message, hint; raised by clients and at the edges
    ├── InvalidRequest      the input was refused before anything started
    ├── RunNotFound         no Run of that id (or its history has expired)
    ├── EventsExpired       Temporal has deleted the Events asked for; says which are left
    ├── CallNotFound        the Run has no such tool call
    ├── ActionNotFound      the Run asks nobody for such a decision
    ├── ActionAlreadyResolved  it has been decided before, or has expired
    ├── RunAlreadyExists    a Run of that id has been started before
    ├── RunAlreadyTerminal  the Run has ended, or is about to, so this can't be done
    ├── RunNotResumable     the Run is open, completed, or would only fail again
    ├── SessionNotFound     no Session of that id (or it has expired)
    ├── SessionBusy         a Run of the Session is going on; says which
    │   └── SessionWaitingForAction  and it waits for a person; says what for
    ├── SessionLimitReached the Session has used what it may use
    ├── QueueFull           no more Runs may wait in the Session
    ├── IdempotencyConflict the key was used before, with another request
    ├── OutputInvalid       the Run's output is not of the type that is asked for
    ├── EngineUnavailable   Temporal does not answer at the configured address
    ├── NoWorker            nothing polls the task queue, so nothing would happen
    ├── ToolRefused         a tool did not do what its arguments ask for; the model is told the code
    ├── StorageUnavailable  a large payload can't be read or written
    ├── ConfigurationError  what was configured can't work (agents, keys, ports)
    └── IllegalEvent        an Event that can't follow; a programming error of ours

A Run or Step that goes wrong holds a `RunError` value instead: it is data, kept in the Run.
"""

from typing import Any

from perdure.runs.codes import ErrorCode
from perdure.runs.frozen import Frozen
from perdure.runs.meanings import MEANINGS
from pydantic import Field


class RunError(Frozen):
    """Why a Step or a Run did not succeed. Holds no secrets: redacted before it is made."""

    code: ErrorCode
    message: str
    """One sentence: what went wrong, with which thing."""
    hint: str = ""
    """The way out."""
    retryable: bool = False
    """Whether the same thing may succeed later without a change."""
    step: int | None = None
    attempt: int | None = None
    """The attempt that it ended, where that is known."""
    fallback: str | None = None
    """The model to go on with, when this one's retries are spent and the agent names another."""
    details: dict[str, Any] = Field(default_factory=dict)
    """Facts for people: provider status, request id, first 4 KB of the body."""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class PerdureError(Exception):
    """Base of all errors raised to callers.

    Args:
        message: What went wrong, with which thing, in one sentence.
        hint: The way out, in one sentence.
        code: Overrides the code of the class.
    """

    code: ErrorCode = ErrorCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "", code: ErrorCode | None = None) -> None:
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code
        super().__init__(f"{message} {hint}".strip())


class InvalidRequest(PerdureError):
    """The input was refused before anything started."""

    code = ErrorCode.PROVIDER_REFUSED_REQUEST


class RunNotFound(PerdureError):
    """No Run has that id, or its history has passed the retention time."""

    code = ErrorCode.RUN_NOT_FOUND


class EventsExpired(PerdureError):
    """Temporal has deleted the part of a Run's history that holds the Events asked for.

    Args:
        message: Says which.
        last_event: Number of the last one that is gone.
        hint: The way out.
    """

    code = ErrorCode.EVENTS_EXPIRED

    def __init__(self, message: str, *, last_event: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.last_event = last_event


class CallNotFound(PerdureError):
    """The Run has no such tool call."""

    code = ErrorCode.CALL_NOT_FOUND


class ActionNotFound(PerdureError):
    """The Run asks nobody for such a decision."""

    code = ErrorCode.ACTION_NOT_FOUND


class ActionAlreadyResolved(PerdureError):
    """The action has been decided before, or has expired."""

    code = ErrorCode.ACTION_ALREADY_RESOLVED


class RunAlreadyExists(PerdureError):
    """A Run of that id was started before."""

    code = ErrorCode.RUN_ALREADY_EXISTS


class RunAlreadyTerminal(PerdureError):
    """The Run has ended, or is about to, so this can't be done to it any more."""

    code = ErrorCode.RUN_ALREADY_TERMINAL


class RunNotResumable(PerdureError):
    """The Run can't go on from where it stands: it is open, completed, or would fail again."""

    code = ErrorCode.RUN_NOT_RESUMABLE


class SessionNotFound(PerdureError):
    """No Session has that id, or it has ended and its history has passed the retention time."""

    code = ErrorCode.SESSION_NOT_FOUND


class SessionBusy(PerdureError):
    """A Run of the Session is going on.

    Args:
        message: Says which Run.
        active_run_id: The same, for programs.
        hint: The way out.
    """

    code = ErrorCode.SESSION_BUSY

    def __init__(self, message: str, *, active_run_id: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.active_run_id = active_run_id


class SessionWaitingForAction(SessionBusy):
    """A Run of the Session is going on, and waits for a person.

    Args:
        busy: What the Session said.
        action_ids: What is to be decided.
    """

    code = ErrorCode.SESSION_WAITING_FOR_ACTION

    def __init__(self, busy: SessionBusy, action_ids: tuple[str, ...]) -> None:
        waits = f"Its Run {busy.active_run_id!r} waits for a person: {', '.join(action_ids)}."
        super().__init__(
            f"{busy.message} {waits}", active_run_id=busy.active_run_id, hint=busy.hint
        )
        self.action_ids = action_ids


class SessionLimitReached(PerdureError):
    """The Session has used the tokens or the money that it may use."""

    code = ErrorCode.SESSION_LIMIT


class QueueFull(PerdureError):
    """As many Runs wait in the Session as are allowed."""

    code = ErrorCode.QUEUE_FULL


class IdempotencyConflict(PerdureError):
    """The idempotency key was used before, with another request."""

    code = ErrorCode.IDEMPOTENCY_CONFLICT


class OutputInvalid(PerdureError):
    """The Run's output is not of the type that is asked for, or it has none."""

    code = ErrorCode.OUTPUT_INVALID


class EngineUnavailable(PerdureError):
    """Temporal does not answer at the configured address."""

    code = ErrorCode.ENGINE_UNAVAILABLE


class NoWorker(PerdureError):
    """Nothing polls the task queue, so a Run would only wait."""

    code = ErrorCode.NO_WORKER


class ToolRefused(PerdureError):
    """A tool did not do what its arguments ask for, because it may not; the model is told."""

    code = ErrorCode.TOOL_FAILED


class StorageUnavailable(PerdureError):
    """A payload that is too large for Temporal can't be read or written."""

    code = ErrorCode.STORAGE_UNAVAILABLE


class ConfigurationError(PerdureError):
    """What was configured can't work."""

    code = ErrorCode.CONFIGURATION


class IllegalEvent(PerdureError):
    """An Event that can't follow the ones before it; the Run is left as it was."""

    code = ErrorCode.ILLEGAL_EVENT


def error(code: ErrorCode, message: str = "", **fields: Any) -> RunError:
    """Make a `RunError` with the message and hint that `MEANINGS` has for its code.

    Args:
        code: The stable code.
        message: What went wrong here; the code's meaning when empty.
        **fields: Any other field of `RunError`.
    """
    meaning, _, way_out = MEANINGS[code]
    return RunError(code=code, message=message or meaning, **({"hint": way_out} | fields))


__all__ = [
    "MEANINGS",
    "ActionAlreadyResolved",
    "ActionNotFound",
    "CallNotFound",
    "ConfigurationError",
    "EngineUnavailable",
    "ErrorCode",
    "EventsExpired",
    "IdempotencyConflict",
    "IllegalEvent",
    "InvalidRequest",
    "NoWorker",
    "OutputInvalid",
    "PerdureError",
    "QueueFull",
    "RunAlreadyExists",
    "RunAlreadyTerminal",
    "RunError",
    "RunNotFound",
    "RunNotResumable",
    "SessionBusy",
    "SessionLimitReached",
    "SessionNotFound",
    "SessionWaitingForAction",
    "StorageUnavailable",
    "ToolRefused",
    "error",
]
