"""Reading one HTTP response of a provider into an `Answer`, within its time limits.

A stream is read as one and a whole body as well, whatever was asked for; what is neither
raises `Unusable`. No secrets are taken out here, except where text is cut.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from perdure.activities.openai_chat import Answer
from perdure.activities.received import Received
from perdure.activities.redaction import Redactor
from perdure.activities.sse import MAX_EVENT_BYTES, EventTooLarge, events
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import Timeouts

SHOWN_CHARS = 200
"""How much of an answer that makes no sense is quoted."""
DRAIN_S = 0.5
"""How long the end of a body may take that comes after the end of the answer."""

T = TypeVar("T")


class Unusable(Exception):
    """What came is no usable answer."""

    def __init__(self, why: RunError) -> None:
        self.why = why
        super().__init__(why.message)


class AnswerReader:
    """Reads one response; make it when the request is sent: the clock runs from then on.

    Args:
        answer: Filled in.
        received: Filled in.
        timeouts: All of its model limits are set.
        redact: Applied before anything that came is cut.
    """

    def __init__(
        self, answer: Answer, received: Received, timeouts: Timeouts, redact: Redactor
    ) -> None:
        self._answer = answer
        self._received = received
        self._redact = redact
        self._first_s = timeouts.model_first_byte_s or 0
        self._idle_s = timeouts.model_idle_s or 0
        self._heard = False
        self._until = asyncio.get_running_loop().time() + self._first_s

    async def in_time(self, coming: Awaitable[T]) -> T:
        """Wait for what comes next, until a sign of life is overdue.

        Raises:
            Unusable: When there is none.
        """
        try:
            async with asyncio.timeout_at(self._until):
                return await coming
        except TimeoutError:
            what, limit_s = ("answer at all", self._first_s)
            if self._heard:
                what, limit_s = "go on", self._idle_s
            raise Unusable(timed_out(what, limit_s)) from None

    def _alive(self) -> None:
        self._heard = True
        self._until = asyncio.get_running_loop().time() + self._idle_s

    async def read(self, response: Any) -> None:
        """Read a response to its end.

        Raises:
            Unusable: When it is no answer, or not a complete one.
        """
        self._received.head(response)
        chunks = self._received.body(response)
        if "text/event-stream" in self._received.content_type:
            await self._stream(chunks)
        else:
            await self._whole(await self._body(chunks))

    async def _body(self, chunks: AsyncIterator[bytes]) -> bytes:
        raw = bytearray()
        begun = False
        while (chunk := await self.in_time(anext(chunks, None))) is not None:
            if not begun:
                # Blank lines are sent while a model thinks; then the rest comes in one go.
                self._alive()
                begun = bool(chunk.strip())
            raw += chunk
            if len(raw) > MAX_EVENT_BYTES:
                raise Unusable(_bad("a body without an end", retryable=False))
        return bytes(raw)

    async def _stream(self, chunks: AsyncIterator[bytes]) -> None:
        coming = events(chunks)
        any_data = False
        while (data := await self._next(coming)) is not None:
            any_data = any_data or bool(data)
            if self._event(data):
                self._answer.done = True
                await _drain(coming)
        if self._answer.done:
            return
        if not any_data and self._received.beginning.lstrip()[:1] in (b"{", b"[", b"<"):
            # A whole body under the wrong name, most often an error.
            await self._whole(self._received.beginning)
            return
        raise Unusable(error(ErrorCode.STREAM_INCOMPLETE, retryable=True))

    async def _next(self, coming: AsyncIterator[str | None]) -> str | None:
        """Return the next event's data, empty for other signs of life, none at the end."""
        try:
            data = await self.in_time(anext(coming))
        except StopAsyncIteration:
            return None
        except EventTooLarge:
            raise Unusable(_bad("an event without an end")) from None
        except Unusable:
            if self._answer.done:
                return None
            raise
        except response_errors():
            # Broken off: whether the answer was complete is told by what the provider said,
            # not by how TCP closed.
            return None
        self._alive()
        return data or ""

    def _event(self, data: str) -> bool:
        """Take the data of an event, and tell whether it says that nothing more comes."""
        data = data.strip()
        if data.startswith("[DONE]"):
            return True
        if not data:
            return False
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            lines = data.split("\n")
            if len(lines) > 1:  # some leave out the blank lines between events
                return any(self._event(line) for line in lines)
            shown = self._shown(data)
            raise Unusable(_bad(f"a chunk that is not JSON: {shown}")) from None
        self._feed(chunk)
        return False

    async def _whole(self, raw: bytes) -> None:
        """Read an answer that did not come as a stream."""
        facts = {"content_type": self._received.content_type}
        shown = self._shown(raw.decode("utf-8", "replace"))
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            if raw.lstrip().startswith((b"data:", b"event:", b":")):
                await self._stream(_once(raw))  # a stream under the wrong name
                return
            kind = self._received.content_type or "no content type"
            raise Unusable(_bad(f"{kind}: {shown}", details=facts)) from None
        self._feed(body)
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise Unusable(_bad(f"JSON without choices: {shown}", details=facts))
        self._answer.done = True

    def _feed(self, chunk: Any) -> None:
        self._answer.feed(chunk)
        if self._answer.failure is not None:
            raise Unusable(self._answer.failure)
        if self._answer.first_at is None:
            self._answer.first_at = time.monotonic()
        if self._answer.size > self._answer.max_bytes:
            why = f"The model's answer has more than {self._answer.max_bytes:,} bytes."
            raise Unusable(error(ErrorCode.MAX_OUTPUT, why))

    def _shown(self, text: str) -> str:
        return quoted(text, self._redact)


async def _once(raw: bytes) -> AsyncIterator[bytes]:
    yield raw


async def _drain(coming: AsyncIterator[str | None]) -> None:
    """Read a body to its end: only then can its connection serve the next request."""
    with suppress(TimeoutError, EventTooLarge, *response_errors()):
        async with asyncio.timeout(DRAIN_S):
            async for _ in coming:
                pass


def response_errors() -> tuple[type[Exception], ...]:
    """Return what reading a response raises when the connection breaks or the body is broken."""
    import httpx2

    return (httpx2.RequestError,)


def quoted(text: str, redact: Redactor) -> str:
    """Return the beginning of what came, for a message."""
    return repr(redact.excerpt(text)[:SHOWN_CHARS])


def timed_out(what: str, limit_s: float | None) -> RunError:
    """Return the error of a provider that did not do something in time."""
    message = f"The provider did not {what} within {limit_s or 0:g} s."
    return error(ErrorCode.LLM_TIMEOUT, message, retryable=True)


def _bad(what: str, *, retryable: bool = True, **fields: Any) -> RunError:
    said = f"The provider sent {what}."
    return error(ErrorCode.LLM_BAD_RESPONSE, said, retryable=retryable, **fields)
