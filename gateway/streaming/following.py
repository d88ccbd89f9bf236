"""From a request to the stream that answers it: in which encoding, from where, and who has left."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import Request, Response

from perdure.client.live.run import LiveRun
from perdure.client.live.watches import Watches
from perdure.client.manager import RunManager
from perdure.gateway.access import Caller
from perdure.gateway.guard import hold_stream
from perdure.gateway.streaming.sse import ALIVE_S, Encoding, ServerSentEvents, StreamResponse
from perdure.runs.deltas import Position
from perdure.runs.run import Run

Format = Literal["json", "sse", "text", "ag-ui"]
_ACCEPTED: dict[str, Format] = {
    "application/json": "json",
    "text/event-stream": "sse",
    "text/plain": "text",
}
NOTHING_MORE = 204
"""Tells an `EventSource` not to come back."""
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/event-stream": {"schema": {"type": "string"}},
            "text/plain": {"schema": {"type": "string"}},
        }
    },
    NOTHING_MORE: {"description": "The Run has ended, and the follower has all of it."},
}
"""What the OpenAPI document says of a stream."""
WENT_AWAY = "Whoever started it went away."
"""Why a Run is cancelled that was to go on only while it is followed."""


@dataclass(frozen=True)
class Stream:
    """What is to be streamed.

    Attributes:
        run_id: Which Run; the caller may see it.
        position: What the follower has, as it was sent; none when that is nothing.
        format: The encoding that was asked for by name.
        cancels: Whether the Run is cancelled when the follower goes away: it was started by this
            very request, which asked for that.
    """

    run_id: str
    position: str | None = None
    format: Format | None = None
    cancels: bool = False


def wanted_format(request: Request, named: Format | None) -> Format:
    """Return the format that a request wants: the one it names, else the first it accepts."""
    if named is not None:
        return named
    for each in request.headers.get("accept", "").split(","):
        found = _ACCEPTED.get(each.partition(";")[0].strip().lower())
        if found is not None:
            return found
    return "json"


async def stream_run(request: Request, caller: Caller, stream: Stream) -> Response:
    """Return a Run's Events and deltas as a stream.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When Temporal does not answer.
        Refused: When the caller holds too many streams.
    """
    state = request.app.state
    watches: Watches = state.watches
    position = Position() if stream.position is None else Position.parse(stream.position)
    await hold_stream(request, caller)
    async with AsyncExitStack() as stack:
        live = await stack.enter_async_context(watches.watching(stream.run_id))
        if _has_all(live, position):
            return Response(status_code=NOTHING_MORE)
        wanted = wanted_format(request, stream.format)
        encoding = _encoding(wanted, live, position)
        held = stack.pop_all()
    manager: RunManager = state.manager

    async def left() -> None:
        if stream.cancels:
            await manager.cancel(stream.run_id, WENT_AWAY)

    return StreamResponse(live.read(position, alive_s=ALIVE_S), encoding, held, left)


def _encoding(wanted: Format, live: LiveRun, position: Position | None) -> Encoding:
    return ServerSentEvents()


def _has_all(live: LiveRun, position: Position | None) -> bool:
    at_end = position is not None and position.after == live.last
    return at_end and live.run is not None and live.run.is_terminal


def _known(live: LiveRun, position: Position | None) -> Run | None:
    """Return the Run as it stood where a follower is; none at its beginning, or before a reset."""
    if position is None or live.first > 0:
        return None
    run: Run | None = None
    for event in live.events[: position.after + 1]:
        run = Run.begin(event) if run is None else run.apply(event)
    return run
