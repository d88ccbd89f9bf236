"""Reading a Run's history: every execution of it in order, to its present end, and beyond.

Temporal pushes history to any number of readers as it happens; nothing is written for them,
and no worker is needed. A lost connection is taken up again where it broke.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.follow import describe, first_execution, translated
from perdure.client.project import Projection
from perdure.runs import contract
from perdure.runs.errors import EventsExpired, RunNotFound
from perdure.runs.events import EndBase, Event
from perdure.runs.run import Run

RECONNECT_FOR = timedelta(seconds=60)
"""How long the server may be away before following gives up."""
RECONNECT_EVERY_S = 1.0
PASSING = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN)
"""What a server says, or a connection, that is restarting."""


class Told(NamedTuple):
    """What the history of a Run tells next."""

    event: Event | None
    """None where it only tells how the Run stood when the history that is left begins, or that
    the present is reached."""
    run: Run
    """As it stands then."""
    is_present: bool
    """Whether this was the last that the history held when the reading began, or came later."""

    @property
    def last_before(self) -> int:
        """Number of the Event before this; -1 before the first."""
        return self.run.last_event - (self.event is not None)


async def follow(
    client: Client, run_id: str, starting_after: int = -1, *, wait: bool = True
) -> AsyncIterator[Event]:
    """Yield the Events numbered above `starting_after`, as they happen, until the end.

    A terminal Event comes last, and carries the whole Run. One in between carries none, and is
    followed by `run.resumed`.

    *Cancellation*: stopping to iterate does nothing to the Run.

    Args:
        client: Connected with our data converter.
        run_id: Which Run.
        starting_after: Sequence number of the last Event that the reader has.
        wait: Wait for what is to come; otherwise end at the present.

    Raises:
        RunNotFound: When there is no such Run.
        EventsExpired: When Temporal has deleted the Events that would come next.
        EngineUnavailable: When the server stays away for `RECONNECT_FOR`.
    """
    is_first = True
    async for told in tellings(client, run_id, wait=wait):
        if is_first and told.last_before > starting_after:
            raise EventsExpired(
                f"The Events of Run {run_id!r} up to number {told.last_before} were deleted.",
                last_event=told.last_before,
                hint=f"Read the Run itself, and its Events after {told.last_before}.",
            )
        is_first = False
        if told.event is not None and told.event.sequence_number > starting_after:
            yield told.event


async def tellings(client: Client, run_id: str, *, wait: bool = True) -> AsyncIterator[Told]:
    """Yield what the history of a Run tells, from its beginning or what is left of it.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server stays away for `RECONNECT_FOR`.
    """
    latest = await describe(client, run_id)
    reader = _Reader(client, run_id, latest, wait=wait)
    firsts = await first_executions(client, run_id, latest)
    try:
        for first in firsts:
            async for told in reader.life(first, is_last=first == firsts[-1]):
                yield told
    except RunNotFound:
        if reader.has_told:
            raise
        # Temporal deletes closed executions after a time. Each one carries the Run as it began.
        async for told in reader.life(latest.run_id, is_last=True):
            yield told


class _Reader:
    """Reads executions one after the other."""

    def __init__(
        self, client: Client, run_id: str, latest: WorkflowExecutionDescription, *, wait: bool
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._latest = latest
        self._wait = wait
        self._is_present = False
        self._before: Run | None = None
        self.has_told = False

    async def life(self, first: str, *, is_last: bool) -> AsyncIterator[Told]:
        """Yield what a life of a Run tells: an execution, and those that continued it as new."""
        execution: str | None = first
        while execution is not None:
            projection = Projection(self._run_id, self._client.data_converter, self._before)
            async for told in self._execution(execution, projection):
                self.has_told = True
                if isinstance(told.event, EndBase) and is_last:
                    ended = told.event.model_copy(update={"run": told.run})
                    told = told._replace(event=ended)
                yield told
            self._before, execution = projection.run, projection.next_execution

    async def _execution(self, execution: str, projection: Projection) -> AsyncIterator[Told]:
        present = self._latest.history_length if execution == self._latest.run_id else None
        is_known = self._before is not None
        async for number, event in self._events(execution, projection):
            if projection.run is None:
                continue
            if not is_known and event is None:
                yield Told(None, projection.run, False)  # the Run that the execution carries
            is_known = True
            reached = not self._is_present and present is not None and number >= present
            self._is_present = self._is_present or reached
            if event is not None or reached:
                yield Told(event, projection.run, self._is_present)

    async def _events(
        self, execution: str, projection: Projection
    ) -> AsyncIterator[tuple[int, Event | None]]:
        """Yield each event of one execution and the Event that it is, over reconnections."""
        handle = self._client.get_workflow_handle(self._run_id, run_id=execution)
        read, lost_at = 0, None
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async for event in handle.fetch_history_events(wait_new_event=self._wait):
                    if event.event_id <= read:
                        continue
                    happened = await projection.feed(event)
                    read, lost_at = event.event_id, None
                    yield read, happened
                if projection.is_over or not self._wait:
                    return
                # A long poll that ended with nothing new; some servers answer so.
                await asyncio.sleep(RECONNECT_EVERY_S)
            except RPCError as exc:
                lost_at = lost_at or clock()
                away = clock() - lost_at
                if exc.status not in PASSING or away > RECONNECT_FOR.total_seconds():
                    raise translated(exc, self._run_id) from exc
                await asyncio.sleep(RECONNECT_EVERY_S)


async def first_executions(
    client: Client, run_id: str, latest: WorkflowExecutionDescription | None = None
) -> list[str]:
    """Return where each life of a Run begins: its start, and every resumption, oldest first.

    Raises:
        RunNotFound: When there is no such Run.
        EngineUnavailable: When the server does not answer.
    """
    description = latest or await describe(client, run_id)
    firsts = [first_execution(description)]
    while (earlier := await description.memo_value(contract.RESUMED_MEMO, None)) is not None:
        firsts.insert(0, earlier)
        handle = client.get_workflow_handle(run_id, run_id=earlier)
        try:
            description = await handle.describe()
        except RPCError as exc:
            if exc.status is RPCStatusCode.NOT_FOUND:
                break  # deleted since; whoever reads it will notice
            raise translated(exc, run_id) from exc
    return firsts
