"""Sessions: finding, reading, changing, forking, deleting them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from perdure.client.deleting import Deleted
from perdure.client.listing import RunList
from perdure.client.sessions import SessionList
from perdure.gateway.bodies import body, taken
from perdure.gateway.described import problems, taking
from perdure.gateway.ids import scoped_name, scoped_run, scoped_session
from perdure.gateway.queries import Page
from perdure.gateway.routes.callers import Admin, Manager, Reader, Writer
from perdure.gateway.shapes import ChangeSession, ForkSession, NoBody
from perdure.runs.frozen import Frozen
from perdure.runs.messages import Message
from perdure.sessions.contract import SessionReport
from perdure.sessions.parts import SessionSettings

router = APIRouter(tags=["sessions"])


class Conversation(Frozen):
    """What was said in a Session: what its next Run begins with."""

    messages: tuple[Message, ...]


class Variables(Frozen):
    """What every Run of a Session gets."""

    variables: dict[str, Any]


@router.get(
    "/v1/sessions", response_model=SessionList, responses=problems(), summary="List Sessions."
)
async def list_sessions(caller: Reader, manager: Manager, asked: Annotated[Page, Query()]) -> Any:
    """Return a page of Sessions, newest first. Temporal's list is a second or so behind."""
    mine = caller.scoped("")
    return await manager.list_sessions(limit=asked.limit, cursor=asked.cursor, id_prefix=mine)


@router.get(
    "/v1/sessions/{session_id}",
    response_model=SessionReport,
    responses=problems(404),
    summary="Get a Session.",
)
async def get_session(session_id: str, request: Request, caller: Reader) -> Any:
    """Return where a Session stands, without its variables; no worker is asked."""
    return await scoped_session(request, caller, session_id).get()


@router.get(
    "/v1/sessions/{session_id}/variables",
    response_model=Variables,
    responses=problems(404),
    summary="Read the variables of a Session.",
)
async def read_variables(session_id: str, request: Request, caller: Reader) -> Any:
    """Return what every Run of the Session gets; a worker is asked."""
    return Variables(variables=await scoped_session(request, caller, session_id).variables())


@router.get(
    "/v1/sessions/{session_id}/messages",
    response_model=Conversation,
    responses=problems(404),
    summary="Read the conversation of a Session.",
)
async def read_conversation(session_id: str, request: Request, caller: Reader) -> Any:
    """Return what the next Run of the Session begins with; a worker is asked."""
    said = await scoped_session(request, caller, session_id).messages()
    return Conversation(messages=tuple(said))


@router.get(
    "/v1/sessions/{session_id}/runs",
    response_model=RunList,
    responses=problems(404),
    summary="List the Runs of a Session.",
)
async def list_session_runs(
    session_id: str, request: Request, caller: Reader, asked: Annotated[Page, Query()]
) -> Any:
    """Return a page of the Session's Runs, newest first; none where there is no Session."""
    session = scoped_session(request, caller, session_id)
    return await session.runs(limit=asked.limit, cursor=asked.cursor)


@router.patch(
    "/v1/sessions/{session_id}",
    response_model=SessionReport,
    responses=taking(404),
    openapi_extra=taken(ChangeSession),
    summary="Change a Session.",
)
async def change_session(
    session_id: str,
    request: Request,
    caller: Writer,
    given: Annotated[ChangeSession, Depends(body(ChangeSession))],
) -> Any:
    """Change settings and variables; a Session that there is not begins with this."""
    session = scoped_session(request, caller, session_id)
    chosen = given.settings.model_dump() if given.settings is not None else {}
    return await session.configure(SessionSettings(**chosen), variables=given.variables)


@router.post(
    "/v1/sessions/{session_id}/clear",
    response_model=SessionReport,
    responses=taking(404, 409),
    openapi_extra=taken(NoBody),
    summary="Forget the conversation of a Session.",
)
async def clear_session(
    session_id: str,
    request: Request,
    caller: Writer,
    given: Annotated[NoBody, Depends(body(NoBody))],
) -> Any:
    """Forget what was said; totals, settings and variables stay."""
    return await scoped_session(request, caller, session_id).clear()


@router.post(
    "/v1/sessions/{session_id}/fork",
    response_model=SessionReport,
    status_code=201,
    responses=taking(404, 409),
    openapi_extra=taken(ForkSession),
    summary="Fork a Session.",
)
async def fork_session(
    session_id: str,
    request: Request,
    response: Response,
    caller: Writer,
    given: Annotated[ForkSession, Depends(body(ForkSession))],
) -> Any:
    """Begin another Session with the conversation of this one; return the new one."""
    after = scoped_run(caller, given.run_id) if given.run_id is not None else None
    new_id = scoped_name(caller, "session", given.new_session_id)
    forked = await scoped_session(request, caller, session_id).fork(new_id, run_id=after)
    response.headers["Location"] = f"/v1/sessions/{forked.session_id}"
    return await forked.report()


@router.delete(
    "/v1/sessions/{session_id}",
    response_model=Deleted,
    responses=problems(404),
    summary="Delete a Session.",
)
async def delete_session(session_id: str, request: Request, caller: Admin) -> Any:
    """Cancel what goes on, and delete the Session and its Runs. Up to a minute."""
    return await scoped_session(request, caller, session_id).delete()
