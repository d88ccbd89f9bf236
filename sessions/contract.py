"""The wire between client, Session workflow and its activities, as `runs/contract.py` is for Runs.

Never rename what is here: the histories of Sessions that live on hold it.
"""

from datetime import datetime
from typing import Any

from pydantic import Field

from perdure.runs.contract import RunRequest
from perdure.runs.frozen import Frozen
from perdure.runs.messages import Message
from perdure.runs.usage import Usage
from perdure.sessions.parts import SessionSettings
from perdure.sessions.session import Session

SESSION_WORKFLOW = "Session"
START_RUN_UPDATE = "start_run"
RESUME_RUN_UPDATE = "resume_run"
CONFIGURE_UPDATE = "configure"
CLEAR_UPDATE = "clear"
CLOSE_UPDATE = "close"
SESSION_QUERY = "session"
CONVERSATION_QUERY = "conversation"

RUN_OUTCOME = "run_outcome"
OPEN_RUNS = "open_runs"

GOES_ON = "goes_on"
"""Type of the failure of an attempt of `run_outcome` whose Run has not ended yet."""

REPORT_MEMO = "perdure_session"
"""Memo that holds the `SessionReport`: readable with no worker, and in lists."""


def workflow_id(session_id: str) -> str:
    """Return the workflow id of a Session: never that of a Run, whose id can't hold a slash."""
    return f"session/{session_id}"


class SessionRequest(Frozen):
    """Input of the workflow `Session`: how it begins, or the Session it continues."""

    session_id: str
    settings: SessionSettings = SessionSettings()
    messages: tuple[Message, ...] = ()
    variables: dict[str, Any] = Field(default_factory=dict)
    forked_from: str | None = None
    carried: Session | None = None


class SessionResult(Frozen):
    """Result of the workflow `Session`, for people who open it in the Temporal UI."""

    why: str
    runs: int
    usage: Usage


class StartedRun(Frozen):
    """Answer to the update `start_run`."""

    run_id: str
    """The Run to follow."""
    how: str
    """`begun`, `queued`, `steered` into the active Run, or `replayed`: started before, with the
    same key."""


class ResumeRequest(Frozen):
    """Input of the update `resume_run`: what the Run's new execution is started with."""

    request: RunRequest


class ConfigureRequest(Frozen):
    """Input of the update `configure`; what is not set stays as it is."""

    settings: SessionSettings = SessionSettings()
    variables: dict[str, Any] | None = None
    """All of them: these replace the ones before."""


class OutcomeRequest(Frozen):
    """Input of the activity `run_outcome`."""

    run_id: str


class OpenRuns(Frozen):
    """Result of the activity `open_runs`: Runs of the Session that have not ended, oldest first."""

    run_ids: tuple[str, ...] = ()


class SessionReport(Frozen):
    """Where a Session stands; small whatever its size."""

    session_id: str
    created_at: datetime
    last_active_at: datetime
    expires_at: datetime
    active_run_id: str | None = None
    queue: tuple[str, ...] = ()
    """Runs that wait for their turn, the next one first."""
    runs: int = 0
    """Runs that had their turn."""
    messages: int = 0
    """Messages in the conversation."""
    usage: Usage = Usage()
    settings: SessionSettings = SessionSettings()
    variables: dict[str, Any] = Field(default_factory=dict)
    """Only told by a worker: the list of Sessions does not have them."""
    forked_from: str | None = None
    ended_at: datetime | None = None
    """When it expired or was deleted; none while it is open. Only Temporal knows."""


def report(session: Session) -> SessionReport:
    """Return where a Session stands, without its variables."""
    return SessionReport(
        session_id=session.session_id,
        created_at=session.created_at,
        last_active_at=session.last_active_at,
        expires_at=session.expires_at,
        active_run_id=session.active.run_id if session.active is not None else None,
        queue=session.turns,
        runs=session.runs,
        messages=len(session.messages),
        usage=session.usage,
        settings=session.settings,
        forked_from=session.forked_from,
    )
