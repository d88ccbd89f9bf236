"""What Steps say, into Redis as it comes: faster than heartbeats, which go on beside it.

Nothing is queued: a Step's log is the queue, and what Redis has of it is a number. So a Redis that
is slow gets more at once, and one that is away costs nothing; neither holds up a Step.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio import activity

from perdure.activities.heartbeat import Progress
from perdure.runs.deltas import Draft, Segment
from perdure.runs.ids import step_of
from perdure.runs.told import FIELD, Told, stream_of

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import Pipeline

TICK_S = 0.02
"""What is said within it goes out together."""
MAX_ENTRIES = 1000
"""Of a Step's stream, or a few more: the last half minute of a model that never pauses. What came
before it, a reader that comes late has from a heartbeat."""
MAX_BATCH_CHARS = 256 * 1024
"""Of all Steps together, in one tick: after an outage, whole logs are to be sent."""
KEPT_S = 3600
"""How long a stream is kept after the last word, where the worker dies under it."""
KEPT_AFTER_S = 60
"""How long it is kept after its Step: readers that are behind have the Event by then."""
AGAIN_S = (1.0, 5.0)
"""Pauses between attempts to reach a Redis that does not answer: the first, and the longest."""

SoFar = Callable[[], Progress]
Tell = Callable[[SoFar], AbstractAsyncContextManager[object]]
"""Lets somebody hear what a Step has brought, while a block runs."""

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Step:
    """A Step that runs.

    Attributes:
        key: Of its stream.
        so_far: Returns what it has brought.
        is_begun: Whether the stream holds this attempt from its beginning.
        sent: Characters of its log that were sent.
        progress: What was sent of a tool's progress.
    """

    key: str
    so_far: SoFar
    is_begun: bool = False
    sent: int = 0
    progress: tuple[str, float | None] = ("", None)

    def begin_anew(self) -> None:
        """Forget what was sent: nobody knows whether it arrived."""
        self.is_begun, self.sent, self.progress = False, 0, ("", None)

    def news(self, room: int) -> Told | None:
        """Return what has come since the last time, but not more than so many characters."""
        now = self.so_far()
        progress = now.message, now.fraction
        if progress != self.progress:
            self.progress = progress
            return Told(attempt=now.attempt, message=now.message, fraction=now.fraction)
        if sum(len(each.text) for each in now.said) == self.sent or room <= 0:
            return None
        draft, before = Draft(), self.sent
        draft.extend(0, now.said)
        said: list[Segment] = []
        for _, segment in draft.after(before):
            text = segment.text[: before + room - self.sent]
            if text:
                said.append(segment.model_copy(update={"text": text}))
                self.sent += len(text)
        return Told(attempt=now.attempt, offset=before, said=tuple(said))


class Publisher:
    """Publishes for all Steps of a worker: one task, one connection, one round trip a tick.

    Args:
        opened: Opens Redis; none where there is none, and nothing is published.
        namespace: Of Temporal.
    """

    def __init__(self, opened: "Callable[[], Redis] | None", namespace: str) -> None:
        self._opened = opened
        self._namespace = namespace
        self._running: set[_Step] = set()
        self._over: set[str] = set()
        """Streams whose Steps have ended."""
        self._has_work = asyncio.Event()
        self._failures = 0
        """In a row."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Publish while the block runs; what has not gone out at its end does not."""
        if self._opened is None:
            yield
            return
        publishing = asyncio.create_task(self._publish(self._opened()))
        try:
            yield
        finally:
            publishing.cancel()
            await asyncio.wait({publishing})

    @asynccontextmanager
    async def telling(self, so_far: SoFar) -> AsyncIterator[None]:
        """Publish what an attempt brings while the block runs. It waits for nothing.

        Args:
            so_far: What goes into its heartbeats: what is said there, and nothing else, is said
                here.
        """
        if self._opened is None:
            yield
            return
        info = activity.info()
        key = stream_of(self._namespace, info.workflow_id or "", step_of(info.activity_id))
        step = _Step(key, partial(copy_context().run, so_far))
        self._running.add(step)
        self._has_work.set()
        try:
            yield
        finally:
            self._running.discard(step)
            if step.is_begun:
                self._over.add(key)

    async def _publish(self, redis: "Redis") -> None:
        try:
            while True:
                await self._has_work.wait()
                await asyncio.sleep(TICK_S)
                try:
                    await self._send(redis)
                except Exception as exc:  # noqa: BLE001 - whatever it is, it is to be tried again
                    await self._failed(exc)
        finally:
            with contextlib.suppress(Exception):
                await redis.aclose()

    async def _send(self, redis: "Redis") -> None:
        if not self._running and not self._over:
            self._has_work.clear()
            return
        batch = redis.pipeline(transaction=False)
        room = MAX_BATCH_CHARS
        for step in self._running:
            told = step.news(room)
            if told is not None:
                room -= sum(len(each.text) for each in told.said)
                _add(batch, step, told)
        for key in self._over:
            batch.expire(key, KEPT_AFTER_S)
        self._over = set()
        if len(batch):
            await batch.execute()
            if self._failures:
                _logger.info("Redis takes deltas again.")
            self._failures = 0

    async def _failed(self, exc: Exception) -> None:
        if not self._failures:
            # Its text may name what it was given, so only its kind is told.
            _logger.warning(
                "Redis takes no deltas (%s); they go by heartbeat alone until it does.",
                type(exc).__name__,
            )
        self._failures += 1
        for step in self._running:
            step.begin_anew()
        self._over.clear()
        first, longest = AGAIN_S
        await asyncio.sleep(min(first * self._failures, longest))


def _add(batch: "Pipeline", step: _Step, told: Told) -> None:
    if not step.is_begun:
        # What an attempt before it has said, or what may be there in part, is no use to anybody.
        batch.delete(step.key)
        step.is_begun = True
    is_log = bool(told.said)
    # Of progress, only the latest counts.
    bound = MAX_ENTRIES if is_log else 1
    entry: dict[Any, Any] = {FIELD: told.model_dump_json()}  # invariant keys in the client's types
    batch.xadd(step.key, entry, maxlen=bound, approximate=is_log)
    batch.expire(step.key, KEPT_S)
