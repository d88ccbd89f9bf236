"""The access log: one line a request, of what anybody may know of it. At `debug`.

What changes something stands in the audit log (`audit.py`), which is always on.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Message, Scope, Send

from perdure.gateway.record import template

log = logging.getLogger("perdure.gateway.access")


@contextmanager
def answered(scope: Scope, send: Send) -> Iterator[Send]:
    """Log a request at the end of the block; no path, no query, no body, no caller.

    Args:
        scope: Of the request; the routing adds to it.
        send: Sends the answer.

    Yields:
        What sends the answer and hears its status.
    """
    if not log.isEnabledFor(logging.DEBUG):
        yield send
        return
    began, status = time.monotonic(), 0

    async def heard(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        await send(message)

    try:
        yield heard
    finally:
        told = {
            "method": scope["method"],
            "route": template(scope),
            "status": status,
            "duration_ms": round((time.monotonic() - began) * 1000),
        }
        log.debug("Answered.", extra=told)
