"""Doing something that takes long, unless whoever asked goes away, or the gateway stops."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")


class WentAway(Exception):
    """Whoever asked has closed the connection."""


async def unless_gone(request: Request, answer: Coroutine[Any, Any, T]) -> T | None:
    """Return an answer; none when the gateway is stopped first.

    *Cancellation*: of the request cancels the making of the answer.

    Raises:
        WentAway: When whoever asked goes away first.
    """
    asked = asyncio.create_task(answer)
    gone = asyncio.create_task(_disconnected(request))
    stopping: asyncio.Event = request.app.state.stopping
    stops = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({asked, gone, stops}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (asked, gone, stops):
            each.cancel()
    if asked.done() and not asked.cancelled():
        return asked.result()
    if gone.done() and not gone.cancelled():
        raise WentAway
    return None


async def _disconnected(request: Request) -> None:
    # The body was read by now, or there was none: its empty rest may still come.
    while (await request.receive())["type"] != "http.disconnect":
        pass
