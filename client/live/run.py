"""`LiveRun`: one watch of a Run, for any number of readers.

However many read, Temporal is asked once: one long poll of the history, and for what Steps say
before they end one look at what is pending, a few times a second. A reader is a place in what the
watch holds; one that is slow holds nothing back and costs nothing.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from temporalio.client import Client

from perdure.client.follow import PendingStep
from perdure.client.history import Told, tellings
from perdure.client.live.reader import Reader
from perdure.client.live.source import Source
from perdure.client.patience import stopped
from perdure.runs.deltas import Draft, LiveEvent, Position, Reset
from perdure.runs.errors import PerdureError
from perdure.runs.events import Event
from perdure.runs.run import Run
from perdure.runs.steps import Step

BEHIND_S = 2.0
"""How much a watch may be behind another one, which has told the reader more."""


@dataclass
class UnderWay:
    """A Step that runs: what its latest attempt has brought."""

    attempt: int = 1
    reason: str = ""
    """Why the attempt before it ended."""
    begins_at: datetime | None = None
    """When the attempt begins, where it is waited for."""
    draft: Draft = field(default_factory=Draft)
    message: str = ""
    fraction: float | None = None


class LiveRun:
    """One watch of a Run. Enter it, then read from it as often as needed.

    Args:
        client: Connected with our data converter.
        run_id: Which Run.
        source: Where what Steps say comes from.
    """

    def __init__(self, client: Client, run_id: str, source: Source) -> None:
        self.run_id = run_id
        self.run: Run | None = None
        """As it stands."""
        self.events: list[Event] = []
        self.first = 0
        """Number of the first of these: above 0 when Temporal has deleted the ones before."""
        self.under_way: dict[int, UnderWay] = {}
        """Steps that run, by number."""
        self.is_over = False
        """Whether nothing follows any more: the Run has ended, or the watch was stopped."""
        self._client = client
        self._source = source
        self._failure: PerdureError | None = None
        self._present = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "LiveRun":
        """Begin to watch.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._listen())]
        try:
            await self._present.wait()
            if self._failure is not None and self.run is None:
                raise self._failure
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop watching; readers come to their end."""
        self.is_over = True
        self._notify()
        await stopped(*self._tasks)

    async def read(
        self, position: Position | None, *, alive_s: float | None = None
    ) -> AsyncIterator[LiveEvent | None]:
        """Yield what comes after a position, until the Run's end or that of the watch.

        Args:
            position: What the reader has; none when that is no position at all.
            alive_s: After so many seconds in which nothing happened, none is yielded.

        Raises:
            EngineUnavailable: When Temporal stays away for a minute.
        """
        if position is not None:
            await self._told(position.after)
        reset = self._reset(position)
        if reset is not None:
            yield reset
            position = reset.position
        reader = Reader(position or Position())
        while True:
            while (item := reader.next(self)) is not None:
                yield item
            if self._failure is not None:
                raise self._failure
            if self.is_over:
                return
            if not await self.happens(alive_s):
                yield None

    async def _told(self, number: int) -> None:
        """Wait a moment for an Event that the reader has heard of already, from another watch."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEHIND_S):
                while number > self.last and not self.is_over:
                    await self.happens()

    async def happens(self, within_s: float | None = None) -> bool:
        """Wait until something happens; tell whether it did in time."""
        changed = self._changed
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await changed.wait()
        return changed.is_set()

    @property
    def last(self) -> int:
        """Number of the last Event so far."""
        return self.first + len(self.events) - 1

    def after(self, number: int) -> Event | None:
        """Return the Event that follows another, once there is one."""
        place = number + 1 - self.first
        return self.events[place] if 0 <= place < len(self.events) else None

    def hear(self, told: PendingStep, offset: int = 0) -> bool:
        """Take what a Step has brought, and tell whether it was news.

        What is known already changes nothing, and what has a gap before it is left out.

        Args:
            told: By its attempt.
            offset: Where in the attempt's log `told.said` begins.
        """
        if not self._is_heard(told.step):
            return False
        known = self.under_way.setdefault(told.step, UnderWay())
        is_news = told.attempt > known.attempt
        if is_news:
            known = self.under_way[told.step] = UnderWay(
                told.attempt, told.last_failure, told.next_attempt_at
            )
        if told.attempt < known.attempt:
            return False
        before = known.draft.length, known.message, known.fraction
        known.draft.extend(offset, told.said)
        if told.message or told.fraction is not None:
            known.message, known.fraction = told.message, told.fraction
        is_news = is_news or before != (known.draft.length, known.message, known.fraction)
        if is_news:
            self._notify()
        return is_news

    def lacks(self, told: PendingStep, offset: int) -> bool:
        """Tell whether something is missing before a piece of a log, so that it can't be heard."""
        known = self.under_way.get(told.step, UnderWay())
        if not self._is_heard(told.step) or told.attempt < known.attempt:
            return False
        return offset > (known.draft.length if told.attempt == known.attempt else 0)

    def heard_steps(self) -> list[int]:
        """Return the Steps that may have something to say now."""
        if self.run is None or self.is_over:
            return []
        return [step.number for step in self.run.steps if _speaks(step)]

    def _is_heard(self, number: int) -> bool:
        steps = self.run.steps if self.run is not None else ()
        return 0 < number <= len(steps) and _speaks(steps[number - 1])

    async def _follow(self) -> None:
        try:
            async for told in tellings(self._client, self.run_id):
                self._take(told)
        except PerdureError as exc:
            self._failure = exc
        self.is_over = True
        self._present.set()
        self._notify()

    def _take(self, told: Told) -> None:
        if self.run is None:
            self.first = told.last_before + 1
        self.run = told.run
        if told.is_present:
            self._present.set()
        if told.event is None:
            return
        self.events.append(told.event)
        for number in [each for each in self.under_way if not self._is_heard(each)]:
            del self.under_way[number]
        self._notify()

    async def _listen(self) -> None:
        await self._present.wait()
        await self._source.listen(self)

    def _notify(self) -> None:
        # Those who wait hold the one that is set: what comes next has one of its own.
        self._changed.set()
        self._changed = asyncio.Event()

    def _reset(self, position: Position | None) -> Reset | None:
        if self.run is None:
            return None
        if position is None or position.after > self.last:
            return Reset(run_id=self.run_id, reason="unknown_position", run=self.run)
        if position.after < self.first - 1:
            return Reset(run_id=self.run_id, reason="events_expired", run=self.run)
        return None


def _speaks(step: Step) -> bool:
    """Tell whether a Step may have something to say before it ends."""
    is_run = step.child_run_id is not None  # it has a stream of its own
    return step.status == "running" and not is_run
