"""One request to a model provider over HTTP: sent whole, read as a stream, always closed.

The `openai` client does connections, authentication and status codes. Its typed layer is
passed by: it would transform every message of every request again, and it lets broken answers
through as if they were good. It never retries: Temporal owns all retries.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from perdure.activities.failure import failed
from perdure.activities.openai_chat import Answer, provider_error
from perdure.activities.redaction import Redactor
from perdure.activities.sse import EventTooLarge, data_fields
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES, Timeouts

CONNECT_TIMEOUT_S = 10.0
"""Until a connection stands; the finer time limits are kept by `ChatClient.ask`."""
MAX_CONNECTIONS = 1000
"""The client's own limit; concurrency is set by the worker's activity slots."""
SHOWN_CHARS = 200
"""How much of an answer that makes no sense is quoted."""
MAX_TIMER_S = 1e9
"""More seconds than this do not fit a timedelta, and are no time that anybody means."""
DRAIN_S = 0.5
"""How long the end of a body may take that comes after the end of the answer."""


class ChatClient:
    """Sends requests to one Chat Completions endpoint.

    Args:
        api_key: Bearer token. Never leaves this object except to the provider.
        base_url: Up to and including `/v1`; OpenAI's own when none is given.
    """

    def __init__(self, api_key: str, base_url: str | None) -> None:
        self.redact = Redactor([api_key])
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=openai.Timeout(None, connect=CONNECT_TIMEOUT_S),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def ask(
        self,
        body: bytes,
        answer: Answer,
        timeouts: Timeouts,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        """Send one request and feed what comes back to `answer`, as it comes.

        *Cancellation*: the connection is closed at once; `answer` keeps what came before.

        Args:
            body: The request in wire form.
            answer: Filled in.
            timeouts: All of its model limits are set.
            max_bytes: Longest answer; the stream is closed when it is passed.

        Raises:
            ApplicationError: With the code of what went wrong.
        """
        answer.max_bytes = max_bytes
        try:
            async with asyncio.timeout(timeouts.model_s):
                await self._ask(body, answer, timeouts)
        except TimeoutError:
            raise self._failed(_timeout("answer completely", timeouts.model_s)) from None
        except openai.APIStatusError as exc:
            raise self._status_failed(exc) from None
        except openai.APIConnectionError as exc:
            reason = type(exc.__cause__).__name__ if exc.__cause__ else "connection error"
            why = f"The provider could not be reached ({reason})."
            raise self._failed(error(ErrorCode.LLM_UNAVAILABLE, why, retryable=True)) from None
        except response_errors() as exc:
            why = f"The provider's answer broke off ({type(exc).__name__})."
            raise self._failed(error(ErrorCode.LLM_UNAVAILABLE, why, retryable=True)) from None

    async def _ask(self, body: bytes, answer: Answer, timeouts: Timeouts) -> None:
        try:
            async with asyncio.timeout(timeouts.model_first_byte_s):
                stream = await self._client.post(
                    "/chat/completions",
                    cast_to=object,
                    content=body,
                    options={"headers": {"Content-Type": "application/json"}},
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
        except TimeoutError:
            raise self._failed(_timeout("answer at all", timeouts.model_first_byte_s)) from None
        try:
            await self._read(stream.response, answer, timeouts)
        finally:
            await stream.response.aclose()

    async def _read(self, response: Any, answer: Answer, timeouts: Timeouts) -> None:
        kind = response.headers.get("content-type", "")
        if "text/event-stream" not in kind:
            try:
                async with asyncio.timeout(timeouts.model_idle_s):
                    raw = await response.aread()
            except TimeoutError:
                raise self._failed(_timeout("go on", timeouts.model_idle_s)) from None
            self._whole(raw, kind, answer)
            return
        events = data_fields(response.aiter_bytes())
        while True:
            try:
                async with asyncio.timeout(timeouts.model_idle_s):
                    data = await anext(events, None)
            except TimeoutError:
                raise self._failed(_timeout("go on", timeouts.model_idle_s)) from None
            except EventTooLarge:
                raise self._failed(_bad("an event without an end")) from None
            except response_errors():
                # Broken off: whether the answer was complete is told by what the provider
                # said, not by how TCP closed.
                data = None
            if data is None or data.startswith("[DONE]"):
                answer.done = answer.done or data is not None
                await _drain(events)
                break
            self._chunk(data, answer)
        if not answer.done:
            raise self._failed(error(ErrorCode.STREAM_INCOMPLETE, retryable=True))

    def _chunk(self, data: str, answer: Answer) -> None:
        try:
            answer.feed(json.loads(data))
        except (ValueError, RecursionError):
            raise self._failed(_bad(f"a chunk that is not JSON: {self._shown(data)}")) from None
        self._check(answer)

    def _check(self, answer: Answer) -> None:
        if answer.failure is not None:
            raise self._failed(answer.failure)
        if answer.size > answer.max_bytes:
            why = f"The model's answer has more than {answer.max_bytes:,} bytes."
            raise self._failed(error(ErrorCode.MAX_OUTPUT, why))

    def _whole(self, raw: bytes, kind: str, answer: Answer) -> None:
        """Read an answer that did not come as a stream."""
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            shown = self._shown(raw.decode("utf-8", "replace"))
            raise self._failed(_bad(f"{kind or 'no content type'}: {shown}")) from None
        answer.feed(body)
        self._check(answer)
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
            raise self._failed(_bad("JSON without choices"))
        answer.done = True

    def _shown(self, text: str) -> str:
        return repr(self.redact.excerpt(text)[:SHOWN_CHARS])

    def _status_failed(self, exc: openai.APIStatusError) -> Exception:
        body = (
            exc.body if isinstance(exc.body, dict) else {"message": self._shown(exc.response.text)}
        )
        why = provider_error(exc.status_code, body)
        details = why.details | {
            "request_id": exc.request_id,
            "body": self.redact.excerpt(exc.response.text),
        }
        asked = _retry_after(exc.response.headers) if why.retryable else None
        return self._failed(why.model_copy(update={"details": details}), asked)

    def _failed(self, why: RunError, retry_after: timedelta | None = None) -> Exception:
        told = why.model_copy(update={"message": self.redact(why.message)})
        return failed(told, retry_after=retry_after)


async def _drain(events: AsyncIterator[str]) -> None:
    """Read a body to its end: only then can its connection serve the next request."""
    with contextlib.suppress(TimeoutError, EventTooLarge, *response_errors()):
        async with asyncio.timeout(DRAIN_S):
            async for _ in events:
                await _drain(events)


def response_errors() -> tuple[type[Exception], ...]:
    """Return what reading a response raises when the connection breaks or the body is broken."""
    import httpx2

    return (httpx2.RequestError,)


def _retry_after(headers: Any) -> timedelta | None:
    for read in (_milliseconds, _seconds, _seconds_until):
        try:
            seconds = read(headers)
        except ValueError:
            continue
        if 0 < seconds < MAX_TIMER_S:
            return timedelta(seconds=seconds)
    return None


def _milliseconds(headers: Any) -> float:
    return float(headers.get("retry-after-ms", "")) / 1000


def _seconds(headers: Any) -> float:
    return float(headers.get("retry-after", ""))


def _seconds_until(headers: Any) -> float:
    then = parsedate_to_datetime(headers.get("retry-after", ""))
    return (then - datetime.now(then.tzinfo)).total_seconds()


def _timeout(what: str, limit_s: float | None) -> RunError:
    message = f"The provider did not {what} within {limit_s or 0:g} s."
    return error(ErrorCode.LLM_TIMEOUT, message, retryable=True)


def _bad(what: str, *, retryable: bool = True) -> RunError:
    return error(ErrorCode.LLM_BAD_RESPONSE, f"The provider sent {what}.", retryable=retryable)
