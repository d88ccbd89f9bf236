"""Waiting for the answer of a workflow, but not for ever."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ANSWER_WITHIN_S = 30.0
"""How long a workflow may take to answer: a worker that died is replaced within that."""

T = TypeVar("T")

CANCEL_EVERY_S = 0.2
"""How long a task may take to end before it is told again."""


async def in_time(answer: Coroutine[Any, Any, T]) -> T:
    """Return an answer that comes in time.

    In a task of its own: the SDK would turn its caller's cancellation, and a time limit of
    asyncio's, into an error of its own.

    Raises:
        TimeoutError: When it does not come.
    """
    asked = asyncio.create_task(answer)
    asked.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        done, _ = await asyncio.wait({asked}, timeout=ANSWER_WITHIN_S)
    finally:
        asked.cancel()
    if not done:
        raise TimeoutError
    return asked.result()


async def stopped(*tasks: "asyncio.Task[None]") -> None:
    """Cancel tasks until they have ended.

    Once is not always enough: the clients of Temporal and of Redis may take a cancel for an error
    of the connection, which is then tried again.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_EVERY_S)
