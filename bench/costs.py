"""What one Run costs those who keep a cluster: events, bytes, actions, rows, processor time."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from bench.processes import cpu_seconds
from bench.stage import Stage

RUNS_AT_ONCE = 4
EVERY_S = 0.5
"""How often what the server writes behind a Run's end is looked for."""
ACTIONS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_MARKER_RECORDED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
}
"""What Temporal counts as an action, of what histories show: https://docs.temporal.io/cloud/actions.
Heartbeats and retries count as well; Steps as short as these have none."""


@dataclass(frozen=True)
class Costs:
    """What a Run costs, on average over several."""

    turns: int
    events: float
    bytes: float
    """Of the history, as clients read it."""
    actions: float
    rows: dict[str, float]
    """Rows that stay in the server's database for as long as the Run, by table."""
    queued_rows: float
    """Rows of its queues, which are deleted once they are dealt with."""
    database_bytes: float
    server_s: float
    """Processor time of the server, seconds."""
    worker_s: float
    """Of the worker."""


async def measured(stage: Stage, turns: int, runs: int) -> Costs:
    """Execute Runs, a few at a time, and see what they leave and took."""
    await stage.run(turns)  # what is loaded once is none of a Run's cost
    await _settled(stage.database)
    before, size = _rows(stage.database), _size(stage.database)
    server, worker = cpu_seconds(stage.server), cpu_seconds(stage.runs_worker)
    gate = asyncio.Semaphore(RUNS_AT_ONCE)

    async def run() -> list[HistoryEvent]:
        async with gate:
            handle = stage.client.get_workflow_handle(await stage.run(turns))
        return [event async for event in handle.fetch_history_events()]

    events = [
        event for each in await asyncio.gather(*[run() for _ in range(runs)]) for event in each
    ]
    await _settled(stage.database)
    now = _rows(stage.database)
    left = {name: (n - before[name]) / runs for name, n in now.items() if n != before[name]}
    return Costs(
        turns=turns,
        events=len(events) / runs,
        bytes=sum(event.ByteSize() for event in events) / runs,
        actions=sum(event.event_type in ACTIONS for event in events) / runs,
        rows={name: n for name, n in left.items() if not name.endswith("tasks")},
        queued_rows=sum(n for name, n in left.items() if name.endswith("tasks")),
        database_bytes=(_size(stage.database) - size) / runs,
        server_s=(cpu_seconds(stage.server) - server) / runs,
        worker_s=(cpu_seconds(stage.runs_worker) - worker) / runs,
    )


async def _settled(database: Path) -> None:
    """Wait until the server has written what it does behind the end of a Run."""
    before, now = Counter[str](), _rows(database)
    while before != now:
        await asyncio.sleep(EVERY_S)
        before, now = now, _rows(database)


def _rows(database: Path) -> Counter[str]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as open_database:
        found = open_database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        # Those of its full text search are SQLite's own: other databases have indexes for it.
        names = [name for (name,) in found if "_fts_" not in name and "sqlite_" not in name]
        count = "SELECT count(*) FROM {}"
        return Counter(
            {name: open_database.execute(count.format(name)).fetchone()[0] for name in names}
        )


def _size(database: Path) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as open_database:
        pages, page, free = (
            open_database.execute(f"PRAGMA {what}").fetchone()[0]
            for what in ("page_count", "page_size", "freelist_count")
        )
        return int((pages - free) * page)
