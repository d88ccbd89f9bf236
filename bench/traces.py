"""What recording Traces costs a Run, whatever the collector does: against a worker without.

Each kind has a worker of its own; they take turns, so that whatever else the machine does hits all.
A second worker without Traces tells what the measurement itself is worth: it should come to 1 x.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from bench.model import prompt
from bench.processes import cpu_seconds
from bench.stage import NO_LIMITS, Stage, free_port, worker
from perdure.client.manager import RunManager
from tests.harness.otlp import never_answers, receiving, refuses

OFF, CONTROL = "no Traces", "no Traces either"
DELAY = "OTEL_BSP_SCHEDULE_DELAY"


@dataclass(frozen=True)
class Traced:
    """One kind of worker, and what its Runs took.

    Attributes:
        kind: What its collector does, or that there is none.
        ratio: Of the time of all its Runs, over that of those without Traces.
        within: The ratio's standard error, twice: it is this far off at most, 19 times of 20.
        cpu_ratio: Of the worker's CPU, over that of one without.
        bytes: Of a Run's history, over that of one without.
    """

    kind: str
    ratio: float
    within: float
    cpu_ratio: float
    bytes: float


@dataclass
class _Kind:
    manager: RunManager
    pid: int
    times: list[float]
    cpu_s: float = 0.0
    size: int = 0

    async def run(self, turns: int) -> None:
        """Execute a Run, and note what it took."""
        cpu_s, start_s = cpu_seconds(self.pid), time.perf_counter()
        run_id = await self.manager.start_run("echo", prompt(turns), limits=NO_LIMITS)
        handle = self.manager.client.get_workflow_handle(run_id)
        await handle.result()
        self.times.append(time.perf_counter() - start_s)
        self.cpu_s += cpu_seconds(self.pid) - cpu_s
        history = await handle.fetch_history()
        self.size = sum(event.ByteSize() for event in history.events)


@asynccontextmanager
async def _kinds(stage: Stage) -> AsyncIterator[dict[str, _Kind]]:
    async with AsyncExitStack() as stack:
        good, refusing, hanging = [await stack.enter_async_context(receiving()) for _ in range(3)]
        refusing.broken, hanging.broken = refuses, never_answers
        down = good.env(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
        envs: dict[str, dict[str, str]] = {
            OFF: {},
            CONTROL: {},
            "collector takes them": good.env(),
            "collector is down": down,
            "collector hangs": hanging.env(),
            "collector refuses": refusing.env(),
        }
        kinds: dict[str, _Kind] = {}
        for number, (name, env) in enumerate(envs.items()):
            queue = f"bench-traces-{number}"
            env.pop(DELAY, None)  # tests have no patience; what is measured has the default's
            started = worker(stage, queue, stage.model_url, env=env)
            process = await stack.enter_async_context(started)
            kinds[name] = _Kind(RunManager(stage.client, queue), process.pid, [])
        yield kinds


async def measured(stage: Stage, turns: int, rounds: int) -> list[Traced]:
    """Execute Runs of `turns` turns on all kinds of workers, in turn."""
    async with _kinds(stage) as kinds:
        for kind in kinds.values():
            await kind.run(turns)  # the first is not counted: it warms up
            kind.times, kind.cpu_s = [], 0.0
        for number in range(rounds):
            order = list(kinds.values())
            for kind in order[number % len(order) :] + order[: number % len(order)]:
                await kind.run(turns)
    off = kinds.pop(OFF)
    return [_compared(name, kind, off) for name, kind in kinds.items()]


def _compared(name: str, kind: _Kind, off: _Kind) -> Traced:
    ratio = sum(kind.times) / sum(off.times)
    left = [one - ratio * other for one, other in zip(kind.times, off.times, strict=True)]
    error = stdev(left) / sqrt(len(left)) / fmean(off.times)
    return Traced(name, ratio, 2 * error, kind.cpu_s / off.cpu_s, kind.size / off.size)
