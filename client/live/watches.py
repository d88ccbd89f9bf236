"""Watches that are shared: one for each Run, however many read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio.client import Client

from perdure.client.live.run import LiveRun
from perdure.client.live.source import Source

LINGER_S = 10.0
"""How long a watch outlives its last reader: one that lost its connection comes back at once."""


@dataclass
class _Shared:
    opening: asyncio.Task[LiveRun]
    readers: int = 0
    closing: asyncio.TimerHandle | None = None


class Watches:
    """The live Runs of one process.

    Args:
        client: Connected with our data converter.
        source: Where what Steps say comes from.
        linger_s: Seconds for which a watch outlives its last reader.
    """

    def __init__(self, client: Client, source: Source, linger_s: float = LINGER_S) -> None:
        self._client = client
        self._source = source
        self._linger_s = linger_s
        self._shared: dict[str, _Shared] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """Runs that are watched."""
        return len(self._shared)

    @property
    def readers(self) -> int:
        """Who reads them, all together."""
        return sum(shared.readers for shared in self._shared.values())

    @asynccontextmanager
    async def watching(self, run_id: str) -> AsyncIterator[LiveRun]:
        """Share the watch of a Run while the block runs.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        shared = self._shared.get(run_id)
        if shared is None or _is_over(shared):
            # One that has ended may have been resumed since.
            shared = _Shared(asyncio.create_task(self._opened(run_id)))
            self._shared[run_id] = shared
        if shared.closing is not None:
            shared.closing.cancel()
        shared.readers += 1
        try:
            # Shielded: others wait for the same.
            yield await asyncio.shield(shared.opening)
        finally:
            shared.readers -= 1
            if not shared.readers:
                self._left(run_id, shared)

    async def close(self) -> None:
        """Stop all watches: their readers come to an end, and are to go on elsewhere."""
        for run_id, shared in list(self._shared.items()):
            self._stop(run_id, shared)
        await asyncio.gather(*self._stopping)

    async def _opened(self, run_id: str) -> LiveRun:
        return await LiveRun(self._client, run_id, self._source).__aenter__()

    def _left(self, run_id: str, shared: _Shared) -> None:
        if _is_over(shared):
            self._stop(run_id, shared)
            return
        loop = asyncio.get_running_loop()
        shared.closing = loop.call_later(self._linger_s, self._stop, run_id, shared)

    def _stop(self, run_id: str, shared: _Shared) -> None:
        if self._shared.get(run_id) is shared:
            del self._shared[run_id]
        task = asyncio.create_task(_stopped(shared))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)


def _is_over(shared: _Shared) -> bool:
    opening = shared.opening
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or opening.result().is_over


async def _stopped(shared: _Shared) -> None:
    shared.opening.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await (await shared.opening).stop()
