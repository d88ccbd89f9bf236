"""Starting a Run over HTTP: in the background, waited for, or streamed."""

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Header, Query, Request, Response

from perdure.client.launch import asked_for, start
from perdure.client.settling import is_settled
from perdure.gateway.access import Caller
from perdure.gateway.bodies import LARGE_BYTES, body, taken
from perdure.gateway.described import taking
from perdure.gateway.given import limits, read_files, timeouts
from perdure.gateway.ids import manager_of, scoped_name
from perdure.gateway.patience import WentAway, unless_gone
from perdure.gateway.routes.callers import Writer
from perdure.gateway.shapes import StartRun
from perdure.gateway.streaming.following import STREAMED, Format, Stream, stream_run
from perdure.runs.errors import InvalidRequest
from perdure.runs.run import Run
from perdure.sessions.contract import StartedRun

router = APIRouter(tags=["runs"])

REPLAYED = "Idempotency-Replayed"
CLIENT_CLOSED = 499
"""nginx's status for who went away; nobody reads it."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key and body give the same Run, for a day at least; "
        "the same key with another body is refused.",
    ),
]


@router.post(
    "/v1/runs",
    response_model=Run,
    status_code=202,
    responses={
        202: {"description": "It is started; `Location` names it."},
        200: STREAMED[200]
        | {
            "model": Run,
            "description": "With `wait`: it has ended, or needs a person. With `stream`: the "
            "stream of the Run, as `GET /v1/runs/{run_id}/events` has it.",
        },
        **taking(409),
    },
    openapi_extra=taken(StartRun),
    summary="Start a Run.",
)
async def start_run(
    request: Request,
    response: Response,
    caller: Writer,
    given: Annotated[StartRun, Depends(body(StartRun, LARGE_BYTES))],
    key: Key = None,
    format: Annotated[Format | None, Query(description="Of the stream.")] = None,
) -> Any:
    """Start a Run and return it at once; with `wait`, once it has ended or needs a person."""
    if given.wait and given.stream:
        raise InvalidRequest("`wait` and `stream` exclude each other.", hint="Choose one.")
    if given.on_disconnect == "cancel" and not (given.wait or given.stream):
        raise InvalidRequest(
            "Nobody can disconnect from a Run in the background.",
            hint="Leave on_disconnect out, or add `wait` or `stream`.",
        )
    begun = await _start(request, caller, given, key)
    structlog.contextvars.bind_contextvars(run_id=begun.run_id)
    said = {"Location": f"/v1/runs/{begun.run_id}"}
    # What somebody else has started, or is in, is not to be cancelled by one viewer less.
    cancels = given.on_disconnect == "cancel" and begun.how in ("begun", "queued")
    if begun.how == "replayed":
        said[REPLAYED] = "true"
    if given.stream:
        streamed = await stream_run(
            request, caller, Stream(begun.run_id, format=format, cancels=cancels)
        )
        streamed.headers.update(said)
        return streamed
    response.headers.update(said)
    manager = manager_of(request)
    run: Run | None = None
    if given.wait:
        waiting = manager.settled(begun.run_id, timeout_s=given.wait_timeout_s)
        try:
            run = await unless_gone(request, waiting)
        except WentAway:
            if cancels:
                await manager.cancel(begun.run_id, "Whoever started it went away.")
            return Response(status_code=CLIENT_CLOSED)
        response.status_code = 200 if run is not None and is_settled(run) else 202
    return run or await manager.get_run(begun.run_id)


async def _start(request: Request, caller: Caller, given: StartRun, key: str | None) -> StartedRun:
    manager = manager_of(request)
    session = given.session_id
    asked = asked_for(
        given.agent,
        given.input,
        None if session is None else scoped_name(caller, "session", session),
        files=read_files(given.files),
        context=given.context.read() if given.context is not None else None,
        model=given.model,
        limits=limits(given.limits),
        on_limit=given.on_limit,
        on_unknown=given.on_unknown,
        timeouts=timeouts(given.timeouts),
        metadata=given.metadata,
        output_schema=given.output_schema,
        on_busy=given.on_busy,
        idempotency_key=None if key is None else caller.scoped(key),
        id_prefix=caller.scoped(""),
    )
    return await start(manager.client, manager.task_queue, asked)
