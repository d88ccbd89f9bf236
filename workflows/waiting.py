"""Waiting, where Temporal's own cancel is somebody else's to hear."""

import asyncio
from collections.abc import Iterator
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
