"""Collecting the evidence, when the faults are over: from provider, ledger and histories."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.client.manager import RunManager
from perdure.runs.errors import PerdureError
from perdure.runs.messages import wire
from perdure.runs.run import Run
from perdure.runs.transcript import messages
from tests.chaos.evidence import Reading, Request, RunTrace
from tests.chaos.plan import STATUSES, Plan
from tests.chaos.provider import Asked, Provider
from tests.chaos.workers import Life
from tests.harness.engine import Engine

AT_ONCE = 4
"""Runs read at the same time."""


@dataclass(frozen=True)
class Gathered:
    """What was read."""

    runs: Sequence[RunTrace]
    asked: Sequence[Asked]

    def requests(self, lives: Iterable[Life]) -> list[Request]:
        """Return all requests, each with the process that sent it."""
        known = list(lives)
        return [_request(asked, known) for asked in self.asked]


async def gathered(client: Client, manager: RunManager, provider: Provider, plan: Plan) -> Gathered:
    """Read everything about all Runs."""
    engine = Engine(client, provider.endpoints[0], manager.task_queue)
    places = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: str) -> RunTrace:
        async with places:
            return await _traced(engine, run_id)

    runs = await asyncio.gather(*[one(run.run_id) for run in plan.runs])
    return Gathered(runs, tuple(provider.asked))


async def _traced(engine: Engine, run_id: str) -> RunTrace:
    problems: list[str] = []
    run: Run | None = None
    reading = Reading()
    try:
        run = await engine.manager.get_run(run_id)
        await _read(engine.client, run_id, reading)
        if run.status.is_terminal:
            async with asyncio.timeout(60):
                await engine.ended(run_id)
    except (AssertionError, PerdureError, RPCError, TimeoutError) as exc:
        problems.append(f"{type(exc).__name__}: {exc}")
    return RunTrace(
        run_id=run_id,
        run=run,
        steps=tuple(reading.steps[number] for number in sorted(reading.steps)),
        continued_at=tuple(reading.continued_at),
        transcript=[json.loads(wire(each)) for each in messages(run)] if run else (),
        problems=tuple(problems),
    )


async def _read(client: Client, run_id: str, reading: Reading) -> None:
    described = await client.get_workflow_handle(run_id).describe()
    execution = described.raw_description.workflow_execution_info.first_run_id
    while execution:
        reading.begin()
        handle = client.get_workflow_handle(run_id, run_id=execution)
        async for event in handle.fetch_history_events():
            reading.feed(execution, event)
        execution = reading.next_execution


def _request(asked: Asked, lives: Sequence[Life]) -> Request:
    used = asked.recorded.reported_usage
    whole = used is not None and asked.recorded.completed.is_set()
    sender = next(
        (
            life.pid
            for life in lives
            if life.worker == asked.worker and life.born <= asked.at <= (life.died or asked.at)
        ),
        0,
    )
    return Request(
        run=asked.run,
        turn=asked.turn,
        at=asked.at,
        pid=sender,
        messages=[m for m in asked.recorded.messages if m["role"] != "system"],
        is_answer=whole,
        tokens=(used.prompt, used.completion) if used is not None else None,
        began=asked.recorded.chunks_sent > 0 and not (asked.fault and asked.fault.kind in STATUSES),
    )
