"""The rules that every request to a model must obey, stricter than any one provider.

A request that passes here is accepted everywhere; most providers answer the others with a 400
that no retry can cure. Content is text, except that a user's message may hold files: then it is a
list of parts, of which one at least is no text.
"""

import base64
import json
import math
from collections.abc import Iterator
from typing import Any

_SYSTEM = ("system", "developer")


def check_request(body: dict[str, Any]) -> list[str]:
    """Return what is wrong with a Chat Completions request; an empty list if nothing is.

    Args:
        body: The parsed request.

    Returns:
        One sentence a violation, each with the place it stands at.
    """
    violations = list(_check_values(body, "body"))
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*violations, "messages: must be a list with at least one message"]
    open_calls: set[str] = set()
    answered: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        if not isinstance(message, dict):
            violations.append(f"{place}: must be an object")
            continue
        violations += _check_content(message, place)
        if message.get("role") == "tool":
            violations += _check_answer(message, place, open_calls, answered)
            continue
        violations += _unanswered(open_calls, place)
        open_calls, answered = set(), set()
        violations += _check_role(message, index)
        if "tool_calls" in message:
            violations += _check_calls(message, place, open_calls)
    return violations + _unanswered(open_calls, "the end")


def _check_role(message: dict[str, Any], index: int) -> Iterator[str]:
    role = message.get("role")
    if role in _SYSTEM:
        if index:
            yield f"messages[{index}]: a {role} message may only stand at index 0"
    elif role not in ("user", "assistant"):
        yield f"messages[{index}]: unknown role {role!r}"
    if role != "assistant" and "tool_calls" in message:
        yield f"messages[{index}]: only an assistant message may hold tool_calls"


def _check_content(message: dict[str, Any], place: str) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        return
    if isinstance(content, list) and message.get("role") == "user":
        yield from _check_parts(content, place)
    elif content is not None:
        yield f"{place}: content must be a string, not {type(content).__name__}"
    elif message.get("role") != "assistant" or not message.get("tool_calls"):
        yield f"{place}: content may be null only beside tool_calls"


def _check_parts(parts: list[Any], place: str) -> Iterator[str]:
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    if not set(kinds) - {"text"}:
        yield f"{place}: what is only text must be a string"
    for index, part in enumerate(parts):
        match part:
            case {"type": "text", "text": str(said)} if said and len(part) == 2:
                continue
            case {"type": "image_url", "image_url": {"url": str(url)}} if _is_image(url):
                continue
            case {"type": "file", "file": {"filename": str(name), "file_data": str(data)}} if name:
                problem = None if _is_data(data, "application/pdf") else "no data URL of a PDF"
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": kind}}:
                problem = None if kind in ("wav", "mp3") and _is_base64(data) else "no audio"
            case _:
                problem = "no part that the reference has"
        if problem is not None:
            yield f"{place}.content[{index}]: {problem}"


def _is_image(url: str) -> bool:
    kinds = ("image/png", "image/jpeg", "image/webp", "image/gif")
    return url.startswith(("http://", "https://")) or any(_is_data(url, kind) for kind in kinds)


def _is_data(url: str, media_type: str) -> bool:
    head, _, data = url.partition(",")
    return head == f"data:{media_type};base64" and _is_base64(data)


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False


def _check_calls(message: dict[str, Any], place: str, open_calls: set[str]) -> Iterator[str]:
    """Check the tool calls of one message, and add their ids to `open_calls`."""
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        yield f"{place}: tool_calls must be left out rather than empty"
        return
    for index, item in enumerate(calls):
        here = f"{place}.tool_calls[{index}]"
        match item:
            case {"id": str(id), "type": "function", "function": {"name": str(name), **function}}:
                if not id or id in open_calls:
                    yield f"{here}: id {id!r} must be non-empty and unique in its message"
                open_calls.add(id)
                if not name:
                    yield f"{here}: name must not be empty"
                yield from _check_arguments(function.get("arguments"), here)
            case _:
                yield f"{here}: must hold id, type 'function' and a function with a name"


def _check_arguments(arguments: object, place: str) -> Iterator[str]:
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else None
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        yield from _check_values(parsed, f"{place}.arguments")
    else:
        yield f"{place}: arguments must be the text of a JSON object, not {str(arguments)[:80]!r}"


def _check_answer(
    message: dict[str, Any], place: str, open_calls: set[str], answered: set[str]
) -> Iterator[str]:
    """Check one tool message, and move the id it answers from `open_calls` to `answered`."""
    id = message.get("tool_call_id")
    if not isinstance(id, str):
        yield f"{place}: a tool message must hold a tool_call_id"
    elif id in answered:
        yield f"{place}: tool call {id!r} is answered twice"
    elif id not in open_calls:
        yield f"{place}: {id!r} is no tool call of the assistant message before"
    else:
        open_calls.remove(id)
        answered.add(id)


def _unanswered(open_calls: set[str], place: str) -> list[str]:
    return [f"{place}: tool call {id!r} is not answered before this" for id in sorted(open_calls)]


def _check_values(value: object, place: str) -> Iterator[str]:
    """Check that a value can be written as strict JSON in UTF-8, at any depth."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            yield f"{place}: holds a lone surrogate, which is not Unicode text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{place}: {value} is not JSON"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _check_values(key, f"a key in {place}")
            yield from _check_values(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_values(item, f"{place}[{index}]")
