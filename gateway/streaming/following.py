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
from perdure.gateway.streaming.ag_ui import AgUi
from perdure.gateway.streaming.sse import (
    ALIVE_S,
    AgUiEvents,
    Encoding,
    PlainWords,
    ServerSentEvents,
    StreamResponse,
)
from perdure.gateway.streaming.text import PlainText
from perdure.runs.deltas import Position

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
        encoding: The encoding itself, where it is no common one.
        cancels: Whether the Run is cancelled when the follower goes away: it was started by this
            very request, which asked for that.
    """

    run_id: str
    position: str | None = None
    format: Format | None = None
    encoding: Encoding | None = None
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
        encoding = stream.encoding
        if encoding is None and wanted in ("text", "ag-ui"):
            encoding, position = _telling_all(wanted, live, position)
        held = stack.pop_all()
    manager: RunManager = state.manager

    async def left() -> None:
        if stream.cancels:
            await manager.cancel(stream.run_id, WENT_AWAY)

    items = live.read(position, alive_s=ALIVE_S)
    return StreamResponse(items, encoding or ServerSentEvents(), held, left)


def _telling_all(
    wanted: Format, live: LiveRun, position: Position | None
) -> tuple[Encoding, Position]:
    """Return an encoding of which a follower that comes back gets the whole so far, and its place.

    What it had cannot be told by a number: its messages are put together from many Events.
    """
    run = None if position == Position() and live.first == 0 else live.run
    start = Position() if run is None else Position(run.last_event)
    return (AgUiEvents(AgUi(run)) if wanted == "ag-ui" else PlainWords(PlainText(run))), start


def _has_all(live: LiveRun, position: Position | None) -> bool:
    at_end = position is not None and position.after == live.last
    return at_end and live.run is not None and live.run.is_terminal
