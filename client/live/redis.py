"""What Steps say, from the streams that workers write into Redis: within milliseconds.

One connection of a process reads for all Runs that it watches. Temporal is still looked at, rarely:
it knows of attempts, and has what Redis has lost.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from temporalio.client import Client

from perdure.client.follow import PendingStep
from perdure.client.live.source import LOOK_EVERY_S, Heartbeats
from perdure.client.patience import stopped
from perdure.engine.redis import OpenRedis
from perdure.runs.told import FIELD, Told, stream_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from perdure.client.live.run import LiveRun

BLOCK_MS = 50
"""How long one read waits: a Step that starts meanwhile is read from then on. Models think longer
before their first word."""
PAUSE_S = 0.01
"""Between two reads that bring something: what comes within it is read together."""
READS_PER_S = 20_000
"""Of streams, by one process at most: with many, the pauses get longer. A read of 200 takes a core
about a millisecond."""
ENTRIES = 1000
"""Of each stream that one read brings."""
LOOK_S = 1.0
"""How long Temporal may take to tell why an attempt ended."""
AGAIN_S = (1.0, 5.0)
"""Pauses between attempts to reach a Redis that does not answer: the first, and the longest."""
BEGINNING = "0-0"

Entries = Iterable[tuple[str, Mapping[str, str]]]

_logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Stream:
    """The stream of a Step.

    Attributes:
        step: Its number.
        lives: Who hears it.
        last: Id of the last entry that they have.
        attempt: The latest of which they know why there is one.
        looking: Temporal is asked for what the stream does not tell; it is not read meanwhile.
    """

    step: int
    lives: set["LiveRun"] = field(default_factory=set)
    last: str = BEGINNING
    attempt: int = 1
    looking: "asyncio.Task[None] | None" = None


@dataclass
class _Listener:
    """What is known of a live Run.

    Attributes:
        event: Its last Event when its Steps were looked at.
        keys: Of the streams that it hears.
    """

    event: int | None = None
    keys: set[str] = field(default_factory=set)


class RedisStreams:
    """What workers write into Redis, and their heartbeats where that is not enough.

    It connects while something is watched.

    Args:
        client: Connected with our data converter.
        opened: Opens Redis.
        looks: Looks at the heartbeats.
    """

    def __init__(self, client: Client, opened: OpenRedis, looks: Heartbeats | None = None) -> None:
        self._namespace = client.namespace
        self._opened = opened
        self._looks = looks or Heartbeats(client)
        self._lives: dict[LiveRun, _Listener] = {}
        self._streams: dict[str, _Stream] = {}
        self._reading: asyncio.Task[None] | None = None
        self._failures = 0
        """In a row."""

    async def listen(self, live: "LiveRun") -> None:
        """Let a live Run hear, until it is over."""
        self._lives[live] = _Listener()
        if self._reading is None:
            # For all Runs: in nobody's context, or its lines would bear the ids of this one.
            self._reading = asyncio.create_task(self._read(), context=Context())
        try:
            await self._looks.listen(live)
        finally:
            self._hear(live, {})
            del self._lives[live]
            if not self._lives:
                reading, self._reading = self._reading, None
                await stopped(reading)

    async def _read(self) -> None:
        redis = self._opened()
        try:
            while True:
                try:
                    await self._read_once(redis)
                except Exception as exc:  # noqa: BLE001 - whatever it is, it is to be tried again
                    await self._failed(exc)
        finally:
            with contextlib.suppress(Exception):
                await redis.aclose()

    async def _read_once(self, redis: "Redis") -> None:
        self._attend()
        # Any, as the client's types are for all protocols and encodings.
        wanted: dict[Any, Any] = {
            key: each.last for key, each in self._streams.items() if each.looking is None
        }
        if not wanted:
            await asyncio.sleep(PAUSE_S)
            return
        found: Any = await redis.xread(wanted, count=ENTRIES, block=BLOCK_MS)
        if self._failures:
            _logger.info("Redis tells deltas again.")
            self._failures = 0
        self._looks.needed.clear()
        for key, entries in found:
            if (stream := self._streams.get(key)) is not None:
                self._take(stream, entries)
        await asyncio.sleep(max(PAUSE_S, len(wanted) / READS_PER_S))

    async def _failed(self, exc: Exception) -> None:
        if not self._failures:
            # Its text may name what it was given, so only its kind is told.
            _logger.warning(
                "Redis tells no deltas (%s); they come from heartbeats until it does.",
                type(exc).__name__,
            )
        self._failures += 1
        self._looks.needed.set()
        for stream in self._streams.values():
            stream.last = BEGINNING  # another server may count its entries from elsewhere
        first, longest = AGAIN_S
        await asyncio.sleep(min(first * self._failures, longest))

    def _attend(self) -> None:
        """Read for the Steps that run now, and no others."""
        for live, known in self._lives.items():
            if known.event != live.last:
                known.event = live.last
                steps = live.heard_steps()
                self._hear(live, {stream_of(self._namespace, live.run_id, n): n for n in steps})

    def _hear(self, live: "LiveRun", wanted: Mapping[str, int]) -> None:
        known = self._lives[live]
        for key in known.keys - wanted.keys():
            stream = self._streams[key]
            stream.lives.discard(live)
            if not stream.lives:
                del self._streams[key]
                if stream.looking is not None:
                    stream.looking.cancel()
        for key in wanted.keys() - known.keys:
            stream = self._streams.setdefault(key, _Stream(wanted[key]))
            stream.lives.add(live)
            stream.last = BEGINNING  # who hears it already knows that, and is not disturbed
        known.keys = set(wanted)

    def _take(self, stream: _Stream, entries: Entries) -> None:
        """Let all hear what a stream has brought, up to what can't be understood yet."""
        for entry, fields in entries:
            told = _read_entry(fields)
            if told is not None:
                heard = PendingStep(step=stream.step, **dict(told))
                has_gap = any(live.lacks(heard, told.offset) for live in stream.lives)
                if has_gap or told.attempt > stream.attempt:
                    stream.attempt = max(told.attempt, stream.attempt)
                    stream.looking = asyncio.create_task(self._look(stream, has_gap))
                    return
                for live in stream.lives:
                    live.hear(heard, told.offset)
            stream.last = entry

    async def _look(self, stream: _Stream, has_gap: bool) -> None:
        """Ask Temporal why there is another attempt, or for what came before the stream begins."""
        news: list[bool] = []
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    news = await asyncio.gather(*map(self._looks.look, stream.lives))
            if has_gap and not any(news):
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            stream.looking = None


def _read_entry(fields: Mapping[str, str]) -> Told | None:
    try:
        return Told.model_validate_json(fields.get(FIELD, ""))
    except ValidationError:
        return None
