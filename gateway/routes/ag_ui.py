"""AG-UI: the endpoint that its clients POST to."""

from functools import partial
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Request

from perdure.client.launch import asked_for, start
from perdure.client.manager import RunManager
from perdure.gateway.access import Caller
from perdure.gateway.audit import note
from perdure.gateway.bodies import LARGE_BYTES, body, taken
from perdure.gateway.described import taking
from perdure.gateway.ids import scoped_name, scoped_run
from perdure.gateway.problems import Refused
from perdure.gateway.routes.callers import Manager, Writer
from perdure.gateway.streaming.ag_ui import AgUi
from perdure.gateway.streaming.ag_ui.asked import AgUiRequest, Decision, NewRun, asked
from perdure.gateway.streaming.following import STREAMED, Stream, stream_run
from perdure.gateway.streaming.sse import AgUiEvents
from perdure.runs.deltas import Position
from perdure.runs.errors import ActionAlreadyResolved, ErrorCode
from perdure.runs.start import ContextBundle

router = APIRouter(tags=["agents"])


@router.post(
    "/v1/agents/{agent}/ag-ui",
    responses={
        200: STREAMED[200] | {"description": "AG-UI events, as Server-Sent Events."},
        **taking(404, 409),
    },
    openapi_extra=taken(AgUiRequest),
    summary="Talk to an agent by the AG-UI protocol.",
)
async def ag_ui(
    agent: str,
    request: Request,
    caller: Writer,
    manager: Manager,
    given: Annotated[AgUiRequest, Depends(body(AgUiRequest, LARGE_BYTES))],
) -> Any:
    """Start a Run in the Session that the thread is, or decide what one waits for; follow it.

    The stream ends with the Run, and where people are to decide something (docs/ag-ui.md).
    """
    wanted = asked(given)
    encoder = partial(AgUi, thread_id=given.thread_id, run_id=given.run_id, before=given.messages)
    if isinstance(wanted, NewRun):
        run_id = await _started(manager, caller, agent, given.thread_id, wanted)
        begun, position = encoder(), Position()
    else:
        run_id = scoped_run(caller, wanted[0].run_id)
        before = await manager.get_run(run_id)
        await _decided(manager, caller, run_id, wanted)
        begun, position = encoder(before), Position(before.last_event)
    note(request, run_id=run_id)
    structlog.contextvars.bind_contextvars(run_id=run_id)
    encoding = AgUiEvents(begun, ends_at_interrupts=True)
    return await stream_run(request, caller, Stream(run_id, str(position), encoding=encoding))


async def _started(
    manager: RunManager, caller: Caller, agent: str, thread_id: str, wanted: NewRun
) -> str:
    options = asked_for(
        agent,
        wanted.input,
        scoped_name(caller, "session", thread_id),
        files=wanted.files,
        context=ContextBundle(variables=wanted.variables),
        idempotency_key=caller.scoped(wanted.idempotency_key),
        id_prefix=caller.scoped(""),
    )
    return (await start(manager.client, manager.task_queue, options)).run_id


async def _decided(
    manager: RunManager, caller: Caller, run_id: str, decisions: tuple[Decision, ...]
) -> None:
    if "approve" not in caller.scopes:
        raise Refused(
            ErrorCode.FORBIDDEN,
            "Deciding needs the scope 'approve', which the API key does not have.",
            hint="Use a key with it; `perdure keys create` makes one.",
        )
    by = caller.name
    for each in decisions:
        chosen = scoped_run(caller, each.run_id)
        try:
            match each.verdict:
                case "approved":
                    arguments = each.arguments
                    await manager.approve(
                        chosen, each.action_id, by=by, note=each.note, arguments=arguments
                    )
                case "rejected":
                    await manager.reject(chosen, each.action_id, by=by, note=each.note)
                case "answered":
                    await manager.answer(chosen, each.action_id, each.answer, by=by)
        except ActionAlreadyResolved:
            if not each.is_abandoned:
                raise
