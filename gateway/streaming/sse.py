"""Streams over HTTP: one response that follows a Run, whatever its encoding.

Nothing is queued for a follower. It is a place in the watch that all followers of a Run share, and
gets what comes next when it has taken what came before; words that came meanwhile arrive in one
piece. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from perdure.gateway.streaming.ag_ui import AgUi, frames
from perdure.gateway.streaming.text import PlainText
from perdure.runs.deltas import LiveEvent, position_of
from perdure.runs.errors import PerdureError

log = logging.getLogger("perdure.gateway")

ALIVE_S = 10.0
"""A comment goes out after so many seconds of silence: proxies cut what is silent for a minute,
some after 15 s."""
SLOW_S = 30.0
"""Whoever takes nothing for so long is let go."""
PIECE_BYTES = 64 * 1024
"""What is handed to a connection at once: more would wait in memory for a slow reader."""
BEGINNING = b": perdure\n"
"""So that the first byte comes at once."""
ALIVE = b":\n"
"""Without an empty line: some readers take that for an Event without data."""


class Encoding(Protocol):
    """How one follower is told what happens."""

    media_type: str
    alive: bytes
    """What is sent when nothing happens."""

    def opening(self) -> bytes:
        """Return what is sent first."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be sent, though more may happen."""

    def encode(self, item: LiveEvent) -> bytes:
        """Return what is sent for an item; nothing for what the encoding does not tell."""


class ServerSentEvents:
    """Our own events: `id`, `event` and the JSON that docs/events.md describes."""

    media_type = "text/event-stream"
    alive = ALIVE
    is_over = False

    def opening(self) -> bytes:
        """Return a comment."""
        return BEGINNING

    def encode(self, item: LiveEvent) -> bytes:
        """Return the frame of an item."""
        data = item.model_dump_json()
        return f"id: {position_of(item)}\nevent: {item.type}\ndata: {data}\n\n".encode()


class AgUiEvents:
    """The AG-UI protocol: https://docs.ag-ui.com.

    Args:
        encoder: Of this follower.
        ends_at_interrupts: Whether the stream ends where people are to decide something.
    """

    media_type = "text/event-stream"
    alive = ALIVE

    def __init__(self, encoder: AgUi, *, ends_at_interrupts: bool = False) -> None:
        self._encoder = encoder
        self._ends = ends_at_interrupts

    @property
    def is_over(self) -> bool:
        """Whether the AG-UI run has ended, and the stream is to end with it."""
        return self._ends and self._encoder.is_over

    def opening(self) -> bytes:
        """Return how the Run stands where the stream begins."""
        return BEGINNING + frames(self._encoder.opening(), None)

    def encode(self, item: LiveEvent) -> bytes:
        """Return the frames of an item."""
        return frames(self._encoder.encode(item), position_of(item))


class PlainWords:
    """Nothing but the answer's words.

    Args:
        encoder: Of this follower.
    """

    media_type = "text/plain"
    alive = b""
    is_over = False

    def __init__(self, encoder: PlainText) -> None:
        self._encoder = encoder

    def opening(self) -> bytes:
        """Return what was said before."""
        return self._encoder.opening().encode()

    def encode(self, item: LiveEvent) -> bytes:
        """Return what is said."""
        return self._encoder.encode(item).encode()


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
            await _sent(send, self._encoding.opening())
            async with contextlib.aclosing(self._items) as items:  # type: ignore[type-var]
                async for item in items:
                    encode = self._encoding.encode
                    await _sent(send, self._encoding.alive if item is None else encode(item))
                    if self._encoding.is_over:
                        break
        except (TimeoutError, OSError):
            return False
        except PerdureError as exc:
            # The status is sent. An end without a terminal Event means: come back.
            told = {"code": exc.code, "content": exc.message}
            log.warning("A stream ended early.", extra=told)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True


async def _sent(send: Send, body: bytes) -> None:
    for begin in range(0, len(body), PIECE_BYTES):
        piece = body[begin : begin + PIECE_BYTES]
        async with asyncio.timeout(SLOW_S):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _is_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
