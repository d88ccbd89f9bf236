"""Bodies of requests: read whole, within bounds, before anything parses them."""

import asyncio
import re

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from perdure.gateway.problems import Refused
from perdure.runs.errors import ErrorCode
from perdure.runs.limits import MAX_DEPTH

MAX_JSON_DEPTH = MAX_DEPTH + 20
"""Levels of lists and objects: a Run's variables may have `MAX_DEPTH`, and stand a few levels deep
in a request. pydantic reads 200."""
MAX_JSON_TOKENS = 250_000
"""Texts, commas and brackets: an empty list takes 3 bytes in a body, and 60 in memory."""
MAX_GAP_BYTES = 64 * 1024
"""Between those: numbers, and the white space of a pretty printer."""
BODY_WITHIN_S = 60.0
"""How long a body may take to arrive."""
THROWN_AWAY_BYTES = 64 * 1024 * 1024
"""Of a body that is too large, so much is read all the same: who still sends reads no answer."""
IN_THREAD_BYTES = 256 * 1024
"""Larger bodies are looked at in a thread."""

_TOKEN = re.compile(rb'[^"\[\]{},]++|.', re.DOTALL)
_REST = re.compile(rb'(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""Of a text, behind its first quote."""


def is_empty(headers: Headers) -> bool:
    """Tell whether a request says that it has no body."""
    return headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers


def check_type(headers: Headers) -> None:
    """Check that a body is JSON: web pages can't send that to other sites without being asked.

    Raises:
        Refused: When it is not, or is compressed.
    """
    if is_empty(headers) and "content-type" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or headers.get("content-encoding", "identity") != "identity":
        raise Refused(
            ErrorCode.UNSUPPORTED_MEDIA_TYPE,
            "The body is not JSON as it is.",
            status=415,
            hint="Send `Content-Type: application/json`, and no Content-Encoding.",
        )


async def checked_body(headers: Headers, receive: Receive, most: int) -> Receive:
    """Return what gives the body again, after it has been read and looked at.

    Raises:
        Refused: When it is too large, too slow or too deep.
    """
    if is_empty(headers):
        return receive
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            body = await _whole(receive, most)
    except TimeoutError as exc:
        raise Refused(
            ErrorCode.PROVIDER_REFUSED_REQUEST,
            f"The body did not arrive within {BODY_WITHIN_S:g} s.",
            status=408,
        ) from exc
    if len(body) < IN_THREAD_BYTES:
        check_json(body)
    else:
        await asyncio.to_thread(check_json, body)
    again: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given_again() -> Message:
        return again.pop() if again else await receive()

    return given_again


def check_json(body: bytes) -> None:
    """Check that JSON can be parsed at little cost; whether it *is* JSON, the parser tells.

    Takes time that is linear in the size, and no memory.

    Raises:
        Refused: When it is too deep, has too many values, or is no UTF-8.
    """
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise _bad("is not UTF-8") from exc
    if b"\0" in body:
        # Parsers take it for UTF-16, whose quotes and brackets are none here.
        raise _bad("has a NUL byte")
    _measure(body)


def _measure(body: bytes) -> None:
    depth = number = at = 0
    while (token := _TOKEN.match(body, at)) is not None:
        at = token.end()
        match body[token.start()]:
            case 0x22:
                at = _end_of_text(body, at)
            case 0x5B | 0x7B:
                depth += 1
            case 0x5D | 0x7D:
                depth -= 1
            case 0x2C:
                pass
            case _:
                if at - token.start() > MAX_GAP_BYTES:
                    raise _bad("is no JSON")
                continue
        number += 1
        if number > MAX_JSON_TOKENS:
            raise _bad(f"has more than {MAX_JSON_TOKENS:,} values and commas", 422)
        if depth > MAX_JSON_DEPTH:
            raise _bad(f"is more than {MAX_JSON_DEPTH} levels deep", 422)


def _end_of_text(body: bytes, at: int) -> int:
    """Return where a text ends; files in base64, which have no escapes, take no time."""
    end = body.find(b'"', at)
    if end >= 0 and body.find(b"\\", at, end) < 0:
        return end + 1
    rest = _REST.match(body, at)
    return rest.end() if rest is not None else at


async def _whole(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(ErrorCode.PROVIDER_REFUSED_REQUEST, "The body has no end.", status=400)
        part = message.get("body", b"")
        size += len(part)
        if size <= most:
            parts.append(part)
        else:
            parts.clear()
        more = message.get("more_body", False) and size <= THROWN_AWAY_BYTES
    if size > most:
        raise _too_large(most)
    return b"".join(parts)


def _bad(what: str, status: int = 400) -> Refused:
    return Refused(
        ErrorCode.PROVIDER_REFUSED_REQUEST,
        f"The body {what}.",
        status=status,
        hint="Send plain JSON in UTF-8.",
    )


def _too_large(most: int) -> Refused:
    return Refused(
        ErrorCode.PAYLOAD_TOO_LARGE,
        f"The body has more than {most:,} bytes.",
        status=413,
        hint="Pass large data by reference, through a tool, or raise PERDURE_HTTP_MAX_BODY_BYTES.",
    )
