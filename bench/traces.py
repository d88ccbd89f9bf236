"""What recording Traces costs a Run, whatever the collector does: against a worker without.

Each kind has a worker of its own; they take turns, so that whatever else the machine does hits all.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles

from bench.model import prompt
from bench.processes import cpu_seconds
from bench.stage import NO_LIMITS, Stage, free_port, worker
from perdure.client.manager import RunManager
from tests.harness.otlp import never_answers, receiving, refuses

OFF = "no Traces"
DELAY = "OTEL_BSP_SCHEDULE_DELAY"


@dataclass(frozen=True)
class Traced:
    """One kind of worker, and what its Runs took.

    Attributes:
        collector: What its collector does.
        ratios: Of each Run's time, over that of the Run without Traces in the same round.
        cpu_ratio: The same of the worker's CPU, of all rounds together.
        bytes: Of a Run's history, over that of one without Traces.
    """

    collector: str
    ratios: tuple[float, ...]
    cpu_ratio: float
    bytes: float

    @property
    def middle_half(self) -> tuple[float, float]:
        """Between which ratios the middle half of the rounds lies."""
        first, _, third = quantiles(self.ratios, method="inclusive")
        return first, third

    @property
    def ratio(self) -> float:
        """Their median."""
        return median(self.ratios)


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
            "takes them": good.env(),
            "is down": down,
            "hangs": hanging.env(),
            "refuses": refusing.env(),
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
    return [
        Traced(
            name,
            tuple(one / other for one, other in zip(kind.times, off.times, strict=True)),
            kind.cpu_s / off.cpu_s,
            kind.size / off.size,
        )
        for name, kind in kinds.items()
    ]
