"""Streams over HTTP: one response that follows a Run, whatever its encoding.

Nothing is queued for a follower. It is a place in the watch that all followers of a Run share, and
gets what comes next when it has taken what came before; words that came meanwhile arrive in one
piece. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.runs.deltas import LiveEvent, position_of

ALIVE_S = 10.0
"""A comment goes out after so many seconds of silence: proxies cut what is silent for a minute,
some after 15 s."""
SLOW_S = 30.0
"""Whoever takes nothing for so long is let go."""
PIECE_BYTES = 64 * 1024
"""What is handed to a connection at once: more would wait in memory for a slow reader."""
BEGINNING = b": perdure\n\n"
"""So that the first byte comes at once."""
ALIVE = b":\n\n"


class Encoding(Protocol):
    """How one follower is told what happens."""

    media_type: str
    alive: bytes
    """What is sent when nothing happens."""

    def encode(self, item: LiveEvent) -> bytes:
        """Return what is sent for an item; nothing for what the encoding does not tell."""


class ServerSentEvents:
    """Our own events: `id`, `event` and the JSON that docs/events.md describes."""

    media_type = "text/event-stream"
    alive = ALIVE

    def encode(self, item: LiveEvent) -> bytes:
        """Return the frame of an item."""
        data = item.model_dump_json()
        return f"id: {position_of(item)}\nevent: {item.type}\ndata: {data}\n\n".encode()


class StreamResponse(Response):
    """Sends what happens to a Run until the end, or until the follower is gone.

    Args:
        items: What happens; none where nothing did for `ALIVE_S`.
        encoding: How it is told.
        held: What is let go of at the end: the watch.
        left: Called when the follower goes before the end.
        headers: Besides those of every stream.
    """

    def __init__(
        self,
        items: AsyncIterator[LiveEvent | None],
        encoding: Encoding,
        held: AsyncExitStack,
        left: Callable[[], Awaitable[None]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(headers=(headers or {}) | {"Cache-Control": "no-cache, no-transform"})
        del self.headers["content-length"]
        self.headers["content-type"] = f"{encoding.media_type}; charset=utf-8"
        # nginx would hold the events back until its buffer is full.
        self.headers["x-accel-buffering"] = "no"
        self._items = items
        self._encoding = encoding
        self._held = held
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        sending = asyncio.create_task(self._send(send))
        gone = asyncio.create_task(_is_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            has_left = not sending.done() or sending.result() is False
        finally:
            for task in (sending, gone):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self._held.aclose()
        if has_left and self._left is not None:
            await self._left()

    async def _send(self, send: Send) -> bool:
        """Send everything; tell whether the follower took it to the end."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        try:
            if self._encoding.alive:
                await _piece(send, BEGINNING)
            async with contextlib.aclosing(self._items) as items:  # type: ignore[type-var]
                async for item in items:
                    encode = self._encoding.encode
                    frame = self._encoding.alive if item is None else encode(item)
                    for begin in range(0, len(frame), PIECE_BYTES):
                        await _piece(send, frame[begin : begin + PIECE_BYTES])
        except (TimeoutError, OSError):
            return False
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True


async def _piece(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _is_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
