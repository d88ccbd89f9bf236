"""Chunks of Chat Completions streams, as providers really send them, for tests to fold."""

import json
from collections.abc import Iterable
from typing import Any

from perdure.activities.openai_chat import Answer


def folded(chunks: Iterable[Any]) -> Answer:
    """Return what a stream of these chunks said, each having been JSON."""
    answer = Answer()
    for chunk in chunks:
        answer.feed(json.loads(json.dumps(chunk)))
    return answer


def delta(finish_reason: str | None = None, **said: Any) -> dict[str, Any]:
    """Return a chunk whose delta says this."""
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish_reason}]}


def piece(
    name: str | None = None,
    arguments: Any = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a chunk with one piece of a tool call; `index` and `id` as they are given."""
    function = {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"function": function, **fields}])


def whole(*calls: dict[str, Any], **message: Any) -> dict[str, Any]:
    """Return an answer that did not come as a stream."""
    said = {"role": "assistant", "content": None, "tool_calls": list(calls), **message}
    return {"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}


def entry(id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    """Return one call of an answer that did not come as a stream."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
