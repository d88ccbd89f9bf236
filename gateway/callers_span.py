"""Whose span a request is part of: that of the caller, who says so in `traceparent`.

Where the gateway records Traces itself, FastAPI does: it puts a span of its own in between.
https://www.w3.org/TR/trace-context/
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.engine.tracing import called_from
from perdure.runs.tracing import TraceContext

TRACEPARENT = "traceparent"
UNRECORDED = ("/healthz", "/readyz")
"""Asked every few seconds by whatever watches the gateway."""


class CallersSpan:
    """ASGI middleware that lets the Runs a request starts be part of its caller's Trace.

    Args:
        app: What is called.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on."""
        told = Headers(scope=scope).getlist(TRACEPARENT) if scope["type"] == "http" else []
        # Two of them are none, as the standard has it.
        with called_from(TraceContext.parsed(told[0]) if len(told) == 1 else None):
            await self._app(scope, receive, send)


def is_unrecorded(scope: Scope) -> bool:
    """Tell whether a request gets no span."""
    return scope.get("path") in UNRECORDED
