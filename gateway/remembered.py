"""A value that is asked for often and changes seldom: remembered for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """The latest answer, for everybody who asks within a few seconds; one asks at a time.

    Args:
        ask: Asks anew. What it raises is not remembered.
        for_s: Seconds that an answer is good for.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], for_s: float) -> None:
        self._ask = ask
        self._for_s = for_s
        self._turn = asyncio.Lock()
        self._known: tuple[float, T] | None = None

    async def get(self) -> T:
        """Return the answer."""
        clock = asyncio.get_running_loop().time
        async with self._turn:
            if self._known is None or clock() - self._known[0] > self._for_s:
                self._known = None
                self._known = clock(), await self._ask()
            return self._known[1]
