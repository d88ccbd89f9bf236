"""How often somebody may call, and how many streams they may hold: counted in this process.

With several replicas, each counts for itself.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from perdure.gateway.problems import Refused
from perdure.runs.errors import ErrorCode

MOST_COUNTED = 10_000
"""Callers that are remembered, so that memory stays bounded; then the one longest away is not."""
FULL_AGAIN_S = 60.0


class Rates:
    """Token buckets: a minute's worth may come at once, then as much as flows in.

    Args:
        per_minute: Calls of each caller.
        clock: Tells seconds that never go back.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._per_s = per_minute / FULL_AGAIN_S
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, who: str) -> float:
        """Count a call, and return 0; or the seconds to wait, and it does not count."""
        now = self._clock()
        left, at = self._left.pop(who, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_s)
        admitted = left >= 1
        self._left[who] = (left - 1 if admitted else left, now)
        if len(self._left) > MOST_COUNTED:
            self._left.popitem(last=False)
        return 0.0 if admitted else (1 - left) / self._per_s


class Streams:
    """Counts the streams that each caller holds open.

    Args:
        each: At most so many for one caller.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._open: Counter[str] = Counter()

    @asynccontextmanager
    async def held(self, who: str) -> AsyncIterator[None]:
        """Count one more stream until this is left.

        Raises:
            Refused: When the caller has as many as are allowed.
        """
        if self._open[who] >= self._each:
            raise slow_down(f"This API key holds {self._each} streams, as many as it may.", 5)
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


def slow_down(what: str, wait_s: float) -> Refused:
    """Return the answer to who asks too often.

    Args:
        what: There was too much of it.
        wait_s: Seconds after which to ask again.
    """
    seconds = max(1, int(-(-wait_s // 1)))
    return Refused(
        ErrorCode.RATE_LIMITED,
        f"{what} Ask again in {seconds} s.",
        status=429,
        hint="Wait as long as Retry-After says; the limit is the gateway's own.",
        headers={"Retry-After": (str(seconds),)},
    )
