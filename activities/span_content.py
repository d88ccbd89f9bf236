"""What is said to and by models, in the form that spans have for it, cut to a size that they bear.

The form is that of the semantic conventions: messages of parts, as JSON.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

import json
from typing import Any

from perdure.activities.openai_chat import Answer
from perdure.activities.redaction import Redactor

MAX_BYTES = 32 * 1024
"""Of one attribute: collectors refuse batches of more than a few MB."""
MAX_PART_CHARS = 8 * 1024
"""Of one text among several."""
CUT = "…"

Part = dict[str, Any]


def sent(body: bytes, redact: Redactor) -> str:
    """Return the messages of a request, the latest of them where all are too many."""
    messages: list[str] = []
    size = 2
    for message in reversed(json.loads(body)["messages"]):
        made = _json({"role": message.get("role", ""), "parts": _parts(message, redact)})
        size += len(made.encode()) + 1
        if size > MAX_BYTES:
            break
        messages.insert(0, made)
    return f"[{','.join(messages)}]"


def answered(answer: Answer, redact: Redactor) -> str:
    """Return what a model has said, be it only the beginning of an answer."""
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    message = {"content": answer.text or answer.refusal, "tool_calls": calls}
    said = {"role": "assistant", "parts": _parts(message, redact)}
    made = _json([said | {"finish_reason": answer.finish_reason}])
    return made if len(made.encode()) <= MAX_BYTES else "[]"


def shown(text: str, redact: Redactor) -> str:
    """Return a text without secrets, and not too long."""
    return _cut(redact(text), MAX_BYTES // 4)  # of UTF-8, a character takes up to four bytes


def _parts(message: dict[str, Any], redact: Redactor) -> list[Part]:
    said = message.get("content")
    if message.get("role") == "tool":
        result = _text(said, redact)
        return [{"type": "tool_call_response", "id": message["tool_call_id"], "response": result}]
    parts: list[Part] = []
    for each in said if isinstance(said, list) else [said]:
        if isinstance(each, dict) and "text" not in each:
            parts.append({"type": each.get("type", "file")})  # what is in a file, nobody reads here
        elif each:
            parts.append({"type": "text", "content": _text(each, redact)})
    for call in message.get("tool_calls") or ():
        asked = call["function"]
        told = {"name": asked["name"], "arguments": _text(asked["arguments"], redact)}
        parts.append({"type": "tool_call", "id": call["id"], **told})
    return parts


def _text(said: Any, redact: Redactor) -> str:
    if isinstance(said, dict):
        said = said["text"]
    if not isinstance(said, str):
        said = "" if said is None else _json(said)
    return _cut(redact(said), MAX_PART_CHARS)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + CUT


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
