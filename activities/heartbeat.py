"""Heartbeats of a running Step.

They are a sign of life, the way a cancel comes in, and the way partial output goes out. They
cost no history.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from temporalio import activity

from perdure.runs.frozen import Frozen

TICK_S = 0.2
"""How soon new output is shown, and a cancel noticed while output comes."""
SILENT_TICKS = 5
"""Without news, a heartbeat every second: ten of them within the heartbeat timeout."""


class Progress(Frozen):
    """Details of a heartbeat: what the Step has brought so far."""

    text: str = ""
    was_answering: bool = False
    """Left by an attempt that failed when the provider may have counted tokens already."""


@asynccontextmanager
async def heartbeats(progress: Callable[[], str] = str) -> AsyncIterator[None]:
    """Heartbeat while the block runs.

    A Step that ends within a tick sends none, so short Steps cost nothing.

    Args:
        progress: Returns the output so far.
    """
    beating = asyncio.create_task(_beat(progress))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(progress: Callable[[], str]) -> None:
    told, silent = "", 0
    while True:
        await asyncio.sleep(TICK_S)
        text = progress()
        silent += 1
        if text != told or silent >= SILENT_TICKS:
            told, silent = text, 0
            activity.heartbeat(Progress(text=text))


def stopped_by_cancel() -> bool:
    """Tell whether the activity was cancelled with its Run, not with its worker."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested
