"""Ids that callers give, made those that they stand for, before anything is done with them."""

import structlog
from fastapi import Request

from perdure.client.manager import RunManager
from perdure.client.sessions import SessionHandle
from perdure.client.starting import checked_id
from perdure.gateway.access import Caller
from perdure.runs.errors import RunNotFound, SessionNotFound
from perdure.runs.ids import is_valid_id


def manager_of(request: Request) -> RunManager:
    """Return what the gateway works with."""
    manager: RunManager = request.app.state.manager
    return manager


def scoped_run(caller: Caller, run_id: str) -> str:
    """Return the id of a Run that a caller names.

    Raises:
        RunNotFound: When no Run can have it: a Session's workflow has a slash in its id.
    """
    chosen = caller.scoped(run_id)
    if not is_valid_id(chosen):
        raise RunNotFound(f"There is no Run {run_id[:80]!r}.")
    structlog.contextvars.bind_contextvars(run_id=chosen)
    return chosen


def scoped_session(request: Request, caller: Caller, session_id: str) -> SessionHandle:
    """Return the Session that a caller names.

    Raises:
        SessionNotFound: When no Session can have that id.
    """
    chosen = caller.scoped(session_id)
    if not is_valid_id(chosen):
        raise SessionNotFound(f"There is no Session {session_id[:80]!r}.")
    structlog.contextvars.bind_contextvars(session_id=chosen)
    return manager_of(request).session(chosen)


def scoped_name(caller: Caller, what: str, given: str) -> str:
    """Return an id that a caller gives to something, or looks for.

    Raises:
        InvalidRequest: When nothing can have it.
    """
    return checked_id(what, caller.scoped(given))
