"""Replies as bytes: the Chat Completions stream format, written from its public description.

No I/O here. Ids and times are deterministic, so that a failing test fails the same way twice.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.harness.recorded import RecordedRequest
from tests.harness.replies import (
    BEFORE_HEADERS,
    Call,
    Chunks,
    Completion,
    Ending,
    Gate,
    Plain,
    Reply,
    Usage,
)

CREATED = 1_700_000_000
"""Unix seconds in the `created` field of every reply: a constant, no clock is read."""
_BYTES_PER_TOKEN = 4
"""Usual rule of thumb for English text; only to make default usage plausible."""
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


@dataclass(frozen=True)
class Frame:
    """Bytes that belong together, and the usage they report, if any."""

    data: bytes
    usage: Usage | None = None
    is_chunk: bool = True
    """False for headers and the like."""


@dataclass(frozen=True)
class Page:
    """A reply ready to be sent."""

    status: int
    headers: tuple[tuple[str, str], ...]
    frames: tuple[Frame, ...]
    ending: Ending
    delay_s: float
    gates: Mapping[int, Gate]
    silent: bool
    """True if not even the headers are sent."""


def render(reply: Reply, request: RecordedRequest) -> Page:
    """Return the bytes of `reply` as an answer to `request`."""
    code, headers, streamed = 200, dict(_STREAM), True
    body = reply.body
    match body:
        case Completion() if request.stream:
            frames = tuple(_stream_frames(body, request))
        case Completion():
            frames, streamed = (_object_frame(body, request),), False
            headers = {"content-type": "application/json"}
        case Chunks(items):
            frames = tuple(map(_chunk_frame, items))
        case Plain(code, data, plain_headers):
            frames, streamed = (Frame(data),), False
            headers = dict(plain_headers)
    if streamed:
        if reply.ends_after is not None:
            frames = frames[: max(reply.ends_after, 0)]
        if reply.ending is Ending.COMPLETE:
            frames = (*frames, Frame(b"data: [DONE]\n\n"))
    else:
        headers.setdefault("content-length", str(len(frames[0].data)))
        if reply.ending in (Ending.CUT, Ending.HANG):
            frames = _first_half(frames[0]) if reply.ends_after else ()
    headers |= reply.headers
    return Page(
        status=code,
        headers=tuple(headers.items()),
        frames=frames,
        ending=reply.ending,
        delay_s=reply.delay_s,
        gates=reply.gates,
        silent=reply.ends_after == BEFORE_HEADERS,
    )


def chunk(
    delta: Mapping[str, Any] | None,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return one proper stream object, to be changed or used as it is in `chunks(...)`.

    Args:
        delta: What the chunk adds to the message; None gives a chunk without choices.
        finish_reason: Why the message ended, in its last chunk.
        usage: The usage object, in provider form.
    """
    choices = [{"index": 0, "delta": dict(delta or {}), "finish_reason": finish_reason}]
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": "scripted",
        "choices": [] if delta is None else choices,
        **({} if usage is None else {"usage": dict(usage)}),
    }


def _first_half(frame: Frame) -> tuple[Frame]:
    """Cut the only chunk of a response, since an end inside it is what was asked for."""
    return (Frame(frame.data[: len(frame.data) // 2]),)


def _stream_frames(completion: Completion, request: RecordedRequest) -> Iterator[Frame]:
    head = {"id": f"chatcmpl-{request.index}", "model": request.model}
    with_usage = request.include_usage and completion.reports_usage
    for delta, finish_reason in _deltas(completion, request):
        item = chunk(delta, finish_reason) | head
        if with_usage:
            item["usage"] = None
        yield Frame(_event(item))
    if with_usage:
        usage = completion.usage or _plausible_usage(completion, request)
        yield Frame(_event(chunk(None, usage=_usage_object(usage)) | head), usage)


def _deltas(
    completion: Completion, request: RecordedRequest
) -> Iterator[tuple[dict[str, Any], str | None]]:
    yield {"role": "assistant", "content": "" if completion.pieces else None}, None
    for piece in completion.pieces:
        yield {"content": piece}, None
    for index, item in enumerate(completion.calls):
        half = len(item.arguments) // 2
        whole = _call_object(item, index, request)
        whole["function"]["arguments"] = ""
        yield {"tool_calls": [{"index": index, **whole}]}, None
        for part in (item.arguments[:half], item.arguments[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, None
    yield {}, completion.finish_reason


def _object_frame(completion: Completion, request: RecordedRequest) -> Frame:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(completion.pieces) if completion.pieces else None,
    }
    if completion.calls:
        message["tool_calls"] = [
            _call_object(item, index, request) for index, item in enumerate(completion.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason}
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{request.index}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": [choice],
    }
    if not completion.reports_usage:
        return Frame(json.dumps(answer).encode())
    usage = completion.usage or _plausible_usage(completion, request)
    answer["usage"] = _usage_object(usage)
    return Frame(json.dumps(answer).encode(), usage)


def _call_object(item: Call, index: int, request: RecordedRequest) -> dict[str, Any]:
    return {
        "id": f"call_{request.index}_{index}" if item.id is None else item.id,
        "type": "function",
        "function": {"name": item.name, "arguments": item.arguments},
    }


def _plausible_usage(completion: Completion, request: RecordedRequest) -> Usage:
    written = _length(completion.pieces) + _length(c.name + c.arguments for c in completion.calls)
    return Usage(
        prompt=max(1, len(request.raw) // _BYTES_PER_TOKEN),
        completion=max(1, written // _BYTES_PER_TOKEN),
    )


def _length(texts: Iterable[str]) -> int:
    return sum(map(len, texts))


def _usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _chunk_frame(item: Mapping[str, Any] | bytes) -> Frame:
    if isinstance(item, bytes):
        return Frame(item)
    return Frame(_event(item), _read_usage(item.get("usage")))


def _read_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage or "prompt_tokens" not in usage:
        return None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    return Usage(
        usage["prompt_tokens"], usage.get("completion_tokens", 0), cached or 0, reasoning or 0
    )


def _event(item: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(item, separators=(",", ":")).encode() + b"\n\n"
