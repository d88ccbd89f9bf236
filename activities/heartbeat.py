"""Heartbeats of a running Step.

They are a sign of life, the way a cancel comes in, and the way partial output goes out. They
cost no history.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pydantic import Field
from temporalio import activity

from perdure.runs.deltas import Segment
from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing

TICK_S = 0.2
"""How soon new output is shown, and a cancel noticed while output comes."""
BEATS_PER_S = 70
"""By one worker at most: with more Steps than this allows for, each tells less often. A heartbeat
takes a small server more than two milliseconds, and that is taken from everything else."""
SILENT_TICKS = 5
"""Without news, a heartbeat every second: ten of them within the heartbeat timeout."""


_beating: set[asyncio.Task[None]] = set()
"""Of all Steps of this worker that are under way."""


class Progress(Frozen):
    """Details of a heartbeat: what the Step has brought so far."""

    said: tuple[Segment, ...] = Field((), exclude_if=is_nothing)
    """The log of what a model says in this attempt."""
    was_answering: bool = False
    """True once the provider may have counted tokens that we shall not hear of if this attempt,
    or one before it, ends now."""
    failures: int = 0
    """Attempts that the provider made fail; a worker's death is none."""
    attempt: int = 0
    """The attempt that says so."""
    message: str = Field("", exclude_if=is_nothing)
    """What a tool says of how far it is."""
    fraction: float | None = Field(None, exclude_if=lambda fraction: fraction is None)
    """How much of its work a tool has done, from 0 to 1."""

    @staticmethod
    def before() -> "Progress":
        """Return what the attempts before this one left behind."""
        info = activity.info()
        if info.attempt == 1:
            return Progress()
        left = Progress()
        if info.heartbeat_details:
            left = Progress.model_validate(info.heartbeat_details[0])
        if left.attempt < info.attempt - 1:
            # A worker died within the first moments: nobody knows whether its request went out.
            return left.model_copy(update={"was_answering": True})
        return left


@asynccontextmanager
async def heartbeats(progress: Callable[[], Progress] = Progress) -> AsyncIterator[None]:
    """Heartbeat while the block runs.

    A Step that ends within a tick sends none, so short Steps cost nothing.

    Args:
        progress: Returns what the Step has brought so far.
    """
    beating = asyncio.create_task(_beat(progress))
    _beating.add(beating)
    try:
        yield
    finally:
        _beating.discard(beating)
        beating.cancel()


async def _beat(progress: Callable[[], Progress]) -> None:
    told, silent = Progress(), 0
    while True:
        await asyncio.sleep(max(TICK_S, len(_beating) / BEATS_PER_S))
        now = progress()
        silent += 1
        if now != told or silent >= SILENT_TICKS:
            told, silent = now, 0
            activity.heartbeat(now)


def stopped_by_cancel() -> bool:
    """Tell whether the activity was cancelled with its Run, not with its worker."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested
