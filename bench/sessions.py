"""What Sessions cost: many Runs through one of them, and many in which nobody talks."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

from temporalio.client import Client

from bench.processes import cpu_seconds, memory_mib
from bench.stage import Child, Stage, worker
from perdure.client.manager import RunManager
from perdure.sessions.contract import workflow_id
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, text
from tests.harness.scripted_openai import ScriptedOpenAI

QUEUE = "bench-sessions"
CHARS_PER_TOKEN = 4
SAID = "The wind went round to the north in the night; the log says no more of it than that. "
COMPARE_EVERY = 10
"""Runs, after each of which one without a Session is started, to compare."""
AT_ONCE = 20
IDLE_S = 10.0


@dataclass(frozen=True)
class Talk:
    """Many Runs of one turn through one Session, whose model's window is small."""

    runs: int
    early_bytes: float
    """Of history that each Run of the second quarter added: its own and its Session's."""
    late_bytes: float
    """The same of the last quarter."""
    start_ratio: float
    """Time to start a Run in the Session over that without one, median."""
    grown_mib: float
    """What the worker's memory grew by."""


@dataclass(frozen=True)
class Idle:
    """Sessions in which nothing happens."""

    sessions: int
    kib_each: float
    """What the worker's memory grew by while they began, for each."""
    cpu_share: float
    """Part of a processor that the worker used after that."""


async def talk(stage: Stage, runs: int) -> Talk:
    """Have a long conversation, and size what it leaves."""
    async with _served(stage) as (manager, process):
        session = manager.session("bench-talk")
        before = memory_mib(process.pid, "VmRSS")
        added: list[int] = []
        ratios: list[float] = []
        so_far = 0
        for number in range(runs):
            start_s = time.perf_counter()
            run_id = (await session.start_run("talker", f"What says entry {number}?")).run_id
            took_s = time.perf_counter() - start_s
            await manager.wait(run_id)
            if number % COMPARE_EVERY == 0:
                ratios.append(took_s / await _plain_s(manager))
            total = await _bytes(stage.client, workflow_id("bench-talk"))
            added.append(await _bytes(stage.client, run_id) + total - so_far)
            so_far = total
        quarter = runs // 4
        return Talk(
            runs=runs,
            early_bytes=sum(added[quarter : 2 * quarter]) / quarter,
            late_bytes=sum(added[-quarter:]) / quarter,
            start_ratio=median(ratios),
            grown_mib=memory_mib(process.pid, "VmRSS") - before,
        )


async def idle(stage: Stage, sessions: int) -> Idle:
    """Begin Sessions, and see what they take when nothing more comes."""
    async with _served(stage) as (manager, process):
        await manager.session("bench-idle").configure()
        before = memory_mib(process.pid, "VmRSS")
        left = iter(range(sessions))

        async def lane() -> None:
            for number in left:
                await manager.session(f"bench-idle-{number}").configure()

        async with asyncio.TaskGroup() as lanes:
            for _ in range(AT_ONCE):
                lanes.create_task(lane())
        grown = memory_mib(process.pid, "VmRSS") - before
        busy = cpu_seconds(process.pid)
        await asyncio.sleep(IDLE_S)
        return Idle(
            sessions=sessions,
            kib_each=grown * 1024 / sessions,
            cpu_share=(cpu_seconds(process.pid) - busy) / IDLE_S,
        )


@asynccontextmanager
async def _served(stage: Stage) -> AsyncIterator[tuple[RunManager, Child]]:
    async with ScriptedOpenAI(record=False) as model:
        model.respond_with(_answer)
        async with worker(stage, QUEUE, model.base_url) as process:
            yield RunManager(stage.client, QUEUE), process


def _answer(request: RecordedRequest) -> Reply:
    """Say a few sentences; the window's worth of text fills up as with a real model."""
    return text(SAID * 5, usage=(len(request.raw) // CHARS_PER_TOKEN, 110))


async def _plain_s(manager: RunManager) -> float:
    start_s = time.perf_counter()
    run_id = await manager.start_run("talker", "What says the log?")
    took_s = time.perf_counter() - start_s
    await manager.wait(run_id)
    return took_s


async def _bytes(client: Client, workflow: str) -> int:
    """Return the size of a workflow's history, over all executions that continued as new."""
    described = await client.get_workflow_handle(workflow).describe()
    execution = described.raw_description.workflow_execution_info.first_run_id
    total = 0
    while execution:
        goes_on = None
        handle = client.get_workflow_handle(workflow, run_id=execution)
        async for event in handle.fetch_history_events():
            total += event.ByteSize()
            goes_on = event.workflow_execution_continued_as_new_event_attributes
        execution = goes_on.new_execution_run_id if goes_on is not None else ""
    return total
