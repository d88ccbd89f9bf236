"""An HTTP client for the SDK's transport: what it must not meet becomes an answer that it can read.

The SDK's transport ends the whole session when one request meets a broken connection, and reads
a JSON answer of any size. So requests of one Run could end those of all others.
"""

import json
from typing import Any

import httpx2
from mcp_types import JSONRPCError

from perdure.activities.mcp.wire import (
    GONE,
    LOST,
    MAX_HTTP_BYTES,
    NOT_SENT,
    REFUSED,
    TOO_LARGE,
    no_answer,
)

TIMEOUT = httpx2.Timeout(30.0, connect=10.0, read=None)
"""Answers may take as long as their tool is allowed to."""
FAREWELL = httpx2.Timeout(2.0)
"""For the request that ends a session: nobody waits for its answer."""
NOT_SENT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
SESSION_HEADER = "mcp-session-id"


class McpHttpClient(httpx2.AsyncClient):
    """Answers every request with a message in it, whatever happens to it.

    Args:
        headers: Sent with every request.
    """

    def __init__(self, headers: dict[str, str]) -> None:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        super().__init__(headers=headers, timeout=TIMEOUT, limits=limits)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; what came of one with a message in it is always a response."""
        if request.method == "DELETE":
            request.extensions["timeout"] = FAREWELL.as_dict()
        if request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            return await self._readable(request, response)
        except NOT_SENT_ERRORS as exc:
            return _answer(request, NOT_SENT, f"It can't be reached ({type(exc).__name__}).")
        except httpx2.TransportError as exc:
            return _answer(request, LOST, f"The connection broke ({type(exc).__name__}).")

    async def _readable(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        kind = response.headers.get("content-type", "").lower()
        if response.is_redirect or (response.is_success and kind.startswith("text/event-stream")):
            return response  # the SDK follows the one, and bounds the other
        try:
            body = await _bounded(response)
        finally:
            await response.aclose()
        if body is None:
            return _answer(request, TOO_LARGE, f"It is over {MAX_HTTP_BYTES:,} bytes.")
        code = _code(request, response.status_code)
        if response.is_success or (code != GONE and _is_message(body)):
            headers = {n: v for n, v in response.headers.items() if n in _KEPT_HEADERS}
            return httpx2.Response(
                response.status_code, headers=headers, content=body, request=request
            )
        said = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        return _answer(request, code, said)


_KEPT_HEADERS = ("content-type", SESSION_HEADER)


async def _bounded(response: httpx2.Response) -> bytes | None:
    """Return a body, unless it is too large."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_HTTP_BYTES:
            return None
    return bytes(body)


def _is_message(body: bytes) -> bool:
    try:
        JSONRPCError.model_validate_json(body)
    except ValueError:
        return False
    return True


def _code(request: httpx2.Request, status: int) -> int:
    if status == 404 and SESSION_HEADER in request.headers:
        return GONE
    # A gateway's 5xx does not tell what became of the request behind it.
    return LOST if status >= 500 else REFUSED


def _answer(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    sent = json.loads(request.content)
    request_id = sent.get("id") if "method" in sent else None
    if request_id is None:
        return httpx2.Response(202, request=request)  # of notifications nobody waits for an answer
    body = no_answer(request_id, code, message).model_dump_json(by_alias=True)
    return httpx2.Response(
        200, headers={"content-type": "application/json"}, content=body, request=request
    )
