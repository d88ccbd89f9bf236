"""Steering a Run: messages, pauses; and going on from one: resuming, forking."""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from perdure.client.launch import new_id
from perdure.gateway.bodies import LARGE_BYTES, body, taken
from perdure.gateway.described import taking
from perdure.gateway.given import limits, read_files, timeouts
from perdure.gateway.ids import scoped_run
from perdure.gateway.problems import Refused
from perdure.gateway.routes.callers import Manager, Writer
from perdure.gateway.shapes import ForkRun, NoBody, PauseRun, ResumeRun, SendMessage
from perdure.runs.errors import RunAlreadyTerminal
from perdure.runs.run import Run

router = APIRouter(tags=["runs"])


@router.post(
    "/v1/runs/{run_id}/messages",
    response_model=Run,
    responses=taking(404, 409),
    openapi_extra=taken(SendMessage),
    summary="Say something to a Run.",
)
async def send_message(
    run_id: str,
    caller: Writer,
    manager: Manager,
    given: Annotated[SendMessage, Depends(body(SendMessage, LARGE_BYTES))],
) -> Any:
    """Say something to a Run that goes on; it joins before the next model call.

    One that has ended does not take it: the message comes back with the 409.
    """
    chosen = scoped_run(caller, run_id)
    message_id = given.message_id or f"msg_{secrets.token_hex(10)}"
    files = read_files(given.files)
    try:
        return await manager.send_message(chosen, given.text, message_id=message_id, files=files)
    except RunAlreadyTerminal as exc:
        back = {"text": given.text, "message_id": message_id}
        raise Refused(exc.code, exc.message, hint=exc.hint, message=back) from exc


@router.post(
    "/v1/runs/{run_id}/pause",
    response_model=Run,
    responses=taking(404, 409),
    openapi_extra=taken(PauseRun),
    summary="Pause a Run.",
)
async def pause_run(
    run_id: str,
    caller: Writer,
    manager: Manager,
    given: Annotated[PauseRun, Depends(body(PauseRun))],
) -> Any:
    """Pause a Run: what is in flight ends, nothing new starts before `unpause`."""
    return await manager.pause(scoped_run(caller, run_id), given.reason)


@router.post(
    "/v1/runs/{run_id}/unpause",
    response_model=Run,
    responses=taking(404, 409),
    openapi_extra=taken(NoBody),
    summary="Let a paused Run go on.",
)
async def unpause_run(
    run_id: str, caller: Writer, manager: Manager, given: Annotated[NoBody, Depends(body(NoBody))]
) -> Any:
    """Let a paused Run go on."""
    return await manager.unpause(scoped_run(caller, run_id))


@router.post(
    "/v1/runs/{run_id}/resume",
    response_model=Run,
    status_code=202,
    responses=taking(404, 409),
    openapi_extra=taken(ResumeRun),
    summary="Resume a Run.",
)
async def resume_run(
    run_id: str,
    response: Response,
    caller: Writer,
    manager: Manager,
    given: Annotated[ResumeRun, Depends(body(ResumeRun))],
) -> Any:
    """Let a failed, cancelled or timed out Run go on from its last good Step."""
    chosen = scoped_run(caller, run_id)
    response.headers["Location"] = f"/v1/runs/{chosen}"
    changed = limits(given.limits), timeouts(given.timeouts)
    return await manager.resume(chosen, limits=changed[0], timeouts=changed[1])


@router.post(
    "/v1/runs/{run_id}/fork",
    response_model=Run,
    status_code=202,
    responses=taking(404, 409),
    openapi_extra=taken(ForkRun),
    summary="Fork a Run.",
)
async def fork_run(
    run_id: str,
    response: Response,
    caller: Writer,
    manager: Manager,
    given: Annotated[ForkRun, Depends(body(ForkRun, LARGE_BYTES))],
) -> Any:
    """Start a Run that begins where another stood after one of its Steps; return the new one."""
    chosen = scoped_run(caller, run_id)
    forked = await manager.fork(chosen, given.read(), new_run_id=caller.scoped(new_id()))
    response.headers["Location"] = f"/v1/runs/{forked}"
    return await manager.get_run(forked)
