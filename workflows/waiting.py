"""Waiting, where Temporal's own cancel is somebody else's to hear."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from temporalio import workflow


@contextmanager
def unless_cancelled() -> Iterator[None]:
    """Let a wait end quietly when the workflow is cancelled, whose main task deals with that.

    The SDK ends every wait then, in any task; all of them end when it forgets the workflow.
    """
    try:
        yield
    except asyncio.CancelledError:
        if workflow.cancellation_reason() is None:
            raise


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, also when the workflow is cancelled meanwhile."""
    while not holds():
        with unless_cancelled():
            await workflow.wait_condition(holds)
