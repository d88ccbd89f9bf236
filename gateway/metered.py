"""What the gateway measures of the requests that it answers."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.runs import metrics
from perdure.runs.metering import Instruments

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Others are `_OTHER`, as the convention has it: callers choose the word."""
CLOSED = 499
"""Status of a request whose client went away before the answer began, as proxies count it."""


class Metered:
    """ASGI middleware, around everything else.

    Args:
        app: What answers.
        instruments: What records.
    """

    def __init__(self, app: ASGIApp, instruments: Instruments) -> None:
        self._app = app
        self._instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and measure how it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), CLOSED

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            status = 500
            raise
        finally:
            self._instruments.record(
                metrics.HTTP_DURATION,
                time.monotonic() - began,
                http_request_method=scope["method"] if scope["method"] in METHODS else "_OTHER",
                http_route=getattr(scope.get("route"), "path", ""),
                http_response_status_code=str(status),
            )
