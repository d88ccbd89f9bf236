"""Whether a Run may begin in a Session, and when: the one gate of all starts."""

from datetime import datetime, timedelta
from typing import Literal

from perdure.runs.errors import (
    IdempotencyConflict,
    QueueFull,
    RunAlreadyExists,
    SessionBusy,
    SessionLimitReached,
)
from perdure.runs.frozen import Frozen
from perdure.runs.start import RunStart
from perdure.sessions.parts import (
    DEFAULT_MAX_QUEUED,
    Active,
    Interrupter,
    Key,
    Steering,
    Waiting,
)
from perdure.sessions.session import Session

KEYS_FOR = timedelta(hours=25)
"""How long idempotency keys are kept: a day, and what clocks may differ by."""
MAX_STEERING = 100
"""Messages to one active Run, and Runs that are to take its place."""

OnBusy = Literal["reject", "enqueue", "interrupt", "rollback", "steer"]
"""What happens to a Run that is started while another one of its Session goes on: it is refused;
it waits for its turn; the other one is cancelled, and what it said is kept, or forgotten; or what
it was to say is said to the other one, before its next model call."""


class StartRequest(Frozen):
    """Input of the update `start_run`."""

    run_id: str
    """For the Run, should one begin."""
    start: RunStart
    on_busy: OnBusy = "reject"
    key: str = ""
    """Idempotency key; none when empty."""
    digest: str = ""
    """Of everything that was asked for."""


class Admission(Frozen):
    """What becomes of a request."""

    how: Literal["begun", "queued", "steered", "replayed"]
    run_id: str
    """The Run to follow: a new one, the active one that was steered, the one of before."""
    stop: str | None = None
    """The active Run, which is to be stopped for it."""
    superseded: tuple[str, ...] = ()
    """Runs that waited, and will not have their turn."""


def admit(session: Session, request: StartRequest, at: datetime) -> tuple[Session, Admission]:
    """Return the Session with the request in it, and what that means.

    Raises:
        IdempotencyConflict: When its key was used with another request.
        SessionNotFound: When the Session is being deleted.
        RunAlreadyExists: When a Run of that id is known here.
        SessionLimitReached: When the Session has used what it may use.
        SessionBusy: When a Run is going on, and this one is not to wait.
        QueueFull: When too many wait.
    """
    keys = tuple(each for each in session.keys if at - each.at < KEYS_FOR)
    session = session.model_copy(update={"keys": keys})
    known = next((each for each in keys if each.key == request.key), None)
    if request.key and known is not None:
        if known.digest != request.digest:
            raise IdempotencyConflict(
                f"The key {request.key!r} was used for Run {known.run_id!r}, with another request.",
                hint="Use a new key for a new request.",
            )
        return session, Admission(how="replayed", run_id=known.run_id)
    session.require_open()
    if session.knows(request.run_id):
        raise RunAlreadyExists(f"A Run {request.run_id!r} was started before.")
    _check_limits(session)
    after, admission = _admitted(session, request, at)
    return _with_key(after, request, admission.run_id, at), admission


def _admitted(session: Session, request: StartRequest, at: datetime) -> tuple[Session, Admission]:
    if session.busy_with is None:
        begun = session.begun(request.run_id, at)
        return begun, Admission(how="begun", run_id=request.run_id)
    match request.on_busy:
        case "interrupt" | "rollback":
            return _in_place(session, request, at)
        case "steer" if session.active is not None and not session.interrupters:
            return _steered(session, session.active, request)
        case "enqueue" | "steer":
            return _queued(session, request, at)
        case _:
            raise SessionBusy(
                f"Session {session.session_id!r} is busy with Run {session.busy_with!r}.",
                active_run_id=session.busy_with,
                hint="Wait for it, cancel it, or say with on_busy what is to happen.",
            )


def _queued(session: Session, request: StartRequest, at: datetime) -> tuple[Session, Admission]:
    allowed = session.settings.max_queued
    allowed = DEFAULT_MAX_QUEUED if allowed is None else allowed
    if len(session.queue) >= allowed:
        raise QueueFull(
            f"{len(session.queue)} Runs wait in Session {session.session_id!r}; "
            f"{allowed} are allowed.",
            hint="Wait until one has begun, or raise the Session's max_queued.",
        )
    waiting = Waiting(run_id=request.run_id, since=at)
    queue = (*session.queue, waiting)
    return (
        session.model_copy(update={"queue": queue}),
        Admission(how="queued", run_id=request.run_id),
    )


def _in_place(session: Session, request: StartRequest, at: datetime) -> tuple[Session, Admission]:
    """Put a Run before all others, and have what goes on stop for it.

    Those that were to take that place lose their turn; those in the queue do not. All of them
    are told once the Run is started: one that can't be changes nothing.
    """
    if len(session.interrupters) >= MAX_STEERING:
        raise QueueFull(
            f"{MAX_STEERING} Runs were to take the place of Run {session.busy_with!r}.",
            hint="Wait for its end.",
        )
    taking = Interrupter.of(request.run_id, request.start, at).model_copy(
        update={"forgets": request.on_busy == "rollback"}
    )
    superseded = tuple(each.run_id for each in session.interrupters if not each.is_over)
    return (
        session.model_copy(update={"interrupters": (*session.interrupters, taking)}),
        Admission(
            how="queued",
            run_id=request.run_id,
            stop=session.active.run_id if session.active is not None else None,
            superseded=superseded,
        ),
    )


def _steered(session: Session, active: Active, request: StartRequest) -> tuple[Session, Admission]:
    if len(active.steering) >= MAX_STEERING:
        raise QueueFull(
            f"{MAX_STEERING} messages were sent to the active Run.", hint="Wait for its end."
        )
    said = Steering(run_id=request.run_id, start=request.start)
    steered = active.model_copy(update={"steering": (*active.steering, said)})
    return (
        session.model_copy(update={"active": steered}),
        Admission(how="steered", run_id=active.run_id),
    )


def _with_key(session: Session, request: StartRequest, run_id: str, at: datetime) -> Session:
    if not request.key:
        return session
    own = request.run_id
    used = Key(key=request.key, digest=request.digest, run_id=run_id, own_id=own, at=at)
    return session.model_copy(update={"keys": (*session.keys, used)})


def _check_limits(session: Session) -> None:
    settings, used = session.settings, session.usage
    if settings.max_tokens is not None and used.total_tokens >= settings.max_tokens:
        raise SessionLimitReached(
            f"Session {session.session_id!r} used {used.total_tokens} of "
            f"{settings.max_tokens} tokens.",
            hint="Raise its max_tokens.",
        )
    if settings.max_cost is not None and used.cost >= settings.max_cost:
        raise SessionLimitReached(
            f"Session {session.session_id!r} cost {used.cost:.4f} of {settings.max_cost:g} USD.",
            hint="Raise its max_cost.",
        )
