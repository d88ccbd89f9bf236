"""What the scripted model answers: replies built from small pieces, as plain data.

A reply says what is sent, what is waited for, and how it ends. It knows nothing of sockets:
`pages` turns it into bytes, `connection` sends them.
"""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

BEFORE_HEADERS = -1
"""Position of a gate, or of an end, that comes before the first byte of an answer."""

UsageTuple = tuple[int, int] | tuple[int, int, int] | tuple[int, int, int, int]


class Usage(NamedTuple):
    """Tokens of one reply or of many; equal to a plain tuple of the four numbers."""

    prompt: int
    completion: int
    cached: int = 0
    """The part of `prompt` that was read from the provider's cache."""
    reasoning: int = 0
    """The part of `completion` that was spent on hidden reasoning."""

    def plus(self, other: "Usage") -> "Usage":
        """Return the sums, number by number (`+` would join two tuples)."""
        return Usage(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Gate:
    """A point in an answer where the server stops until the test lets it go on.

    Once open a gate stays open. It may stand in several replies.
    """

    def __init__(self, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()

    @property
    def reached(self) -> Coroutine[Any, Any, None]:
        """Await it to wait until the server stands at this gate.

        Raises:
            TimeoutError: it did not within `timeout_s` seconds.
        """
        return self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._reached.wait()
        except TimeoutError:
            raise TimeoutError(f"no answer reached the gate within {self._timeout_s} s") from None

    def open(self) -> None:
        """Let the answer go on."""
        self._opened.set()

    async def pass_through(self) -> None:
        """Report the arrival and wait for `open`; only the server calls this."""
        self._reached.set()
        await self._opened.wait()


class Ending(Enum):
    """How an answer ends on the wire."""

    COMPLETE = "complete"
    WITHOUT_DONE = "without_done"
    """The HTTP body ends properly, but the stream's `[DONE]` never came."""
    CUT = "cut"
    """The server closes the connection in the middle of the HTTP body."""
    HANG = "hang"
    """Nothing more is sent; the connection stays open until the client goes."""


@dataclass(frozen=True)
class Call:
    """One tool call of a completion. Without an id the server gives a unique one."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True)
class Completion:
    """A proper model reply, rendered as the caller asked: as chunks or as one object."""

    pieces: tuple[str, ...] = ()
    """The text, one chunk a piece. Empty means null content."""
    calls: tuple[Call, ...] = ()
    finish_reason: str | None = "stop"
    usage: Usage | None = None
    """None: numbers that follow from the sizes of request and reply."""
    reports_usage: bool = True


@dataclass(frozen=True)
class Chunks:
    """Stream events given one by one: objects sent as `data:` lines, bytes sent as they are."""

    items: tuple[Mapping[str, Any] | bytes, ...]


@dataclass(frozen=True)
class Plain:
    """Any HTTP response that is not a stream."""

    status: int
    data: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """One answer of the server. The methods return changed copies, so they can be chained.

    Chunks are counted from 0. A streamed `Completion` is: the role, one chunk a piece of text,
    three chunks a tool call (its name, then its arguments in two halves), the finish reason,
    and the usage if the request asked for it. A response that is no stream is one chunk.
    """

    body: Completion | Chunks | Plain
    delay_s: float = 0.0
    """Seconds to wait before each chunk."""
    gates: Mapping[int, Gate] = field(default_factory=dict)
    ending: Ending = Ending.COMPLETE
    ends_after: int | None = None
    """Chunks to send before the ending; None means all."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Over those that come with the body."""

    def delayed(self, delay_s: float) -> "Reply":
        """Wait `delay_s` seconds before each chunk."""
        return replace(self, delay_s=delay_s)

    def with_headers(self, **headers: str) -> "Reply":
        """Send these headers as well; `_` in a name stands for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **named})

    def hold(self, gate: Gate, before_chunk: int = BEFORE_HEADERS) -> "Reply":
        """Stop at `gate` before a chunk; by default before anything at all is sent."""
        return replace(self, gates={**self.gates, before_chunk: gate})

    def cut(self, after_chunks: int) -> "Reply":
        """Close the connection after so many chunks, with the HTTP body unfinished."""
        return replace(self, ending=Ending.CUT, ends_after=after_chunks)

    def hang(self, after_chunks: int) -> "Reply":
        """Send nothing more after so many chunks, and leave the connection open."""
        return replace(self, ending=Ending.HANG, ends_after=after_chunks)

    def without_done(self, after_chunks: int | None = None) -> "Reply":
        """End the HTTP body properly after so many chunks (None: all), but without `[DONE]`."""
        return replace(self, ending=Ending.WITHOUT_DONE, ends_after=after_chunks)

    def without_usage(self) -> "Reply":
        """Never report usage, even if asked for, as some providers do.

        Raises:
            TypeError: the reply is not a completion.
        """
        if not isinstance(self.body, Completion):
            raise TypeError(f"only a completion reports usage, this is {self.body!r}")
        return replace(self, body=replace(self.body, reports_usage=False))


def text(
    *pieces: str, usage: UsageTuple | None = None, finish_reason: str | None = "stop"
) -> Reply:
    """Answer with text; every piece is one chunk of the stream."""
    counted = Usage(*usage) if usage else None
    return Reply(Completion(pieces=pieces, finish_reason=finish_reason, usage=counted))


def call(name: str, arguments: Mapping[str, Any] | str, id: str | None = None) -> Call:
    """Return a tool call; arguments given as text are sent as they are, valid or not."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Call(name, written, id)


def tool_calls(
    *calls: Call,
    content: str | None = None,
    usage: UsageTuple | None = None,
    finish_reason: str | None = "tool_calls",
) -> Reply:
    """Answer with tool calls, and with text before them if `content` is given."""
    pieces = () if content is None else (content,)
    return Reply(Completion(pieces, calls, finish_reason, Usage(*usage) if usage else None))


def chunks(*items: Mapping[str, Any] | bytes) -> Reply:
    """Answer with exactly these stream events; see `pages.chunk` for a proper one to start from."""
    return Reply(Chunks(items))


def status(
    code: int,
    body: Mapping[str, Any] | str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Answer with an HTTP status; the default body is an error as OpenAI writes it."""
    if body is None:
        body = {"error": {"message": f"scripted status {code}", "type": "scripted", "code": None}}
    if isinstance(body, bytes | str):
        data, kind = body.encode() if isinstance(body, str) else body, "text/plain"
    else:
        data, kind = json.dumps(body).encode(), "application/json"
    return Reply(Plain(code, data, {"content-type": kind, **_lower(headers or {})}))


def raw(data: bytes, content_type: str, code: int = 200) -> Reply:
    """Answer with any bytes, of any content type."""
    return Reply(Plain(code, data, {"content-type": content_type}))


def hang() -> Reply:
    """Send the headers of a stream, then nothing until the client goes."""
    return chunks().hang(after_chunks=0)


def no_answer() -> Reply:
    """Read the request and send nothing at all, not even headers."""
    return chunks().hang(after_chunks=BEFORE_HEADERS)


def drop() -> Reply:
    """Read the request and close the connection without a byte of an answer."""
    return chunks().cut(after_chunks=BEFORE_HEADERS)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
