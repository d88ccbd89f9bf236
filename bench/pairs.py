"""Runs against the bare workflow, in pairs: whatever else the machine does hits both.

Which of the two goes first changes from pair to pair. The result is the median of the pairs'
ratios, not the ratio of medians.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median, quantiles

from bench.processes import cpu_seconds
from bench.stage import Stage

Load = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Sample:
    """One load: how long it took, and what its worker worked meanwhile."""

    wall_s: float
    worker_cpu_s: float


@dataclass(frozen=True)
class Pair:
    """A load of Runs and the same load of bare workflows, one right after the other."""

    runs: Sample
    bare: Sample

    @property
    def wall_ratio(self) -> float:
        """Time of the Runs over that of the bare workflows."""
        return self.runs.wall_s / self.bare.wall_s


@dataclass(frozen=True)
class Comparison:
    """All pairs of one kind of load."""

    turns: int
    executions: int
    """In each load."""
    pairs: tuple[Pair, ...]

    @property
    def ratio(self) -> float:
        """Median of the pairs' ratios of time, Runs over bare."""
        return median(pair.wall_ratio for pair in self.pairs)

    @property
    def middle_half(self) -> tuple[float, float]:
        """Between which ratios of time the middle half of the pairs lies."""
        first, _, third = quantiles((pair.wall_ratio for pair in self.pairs), method="inclusive")
        return first, third

    def median_of(self, value: Callable[[Pair], float]) -> float:
        """Return the median of something over all pairs."""
        return median(map(value, self.pairs))


async def alone(stage: Stage, turns: int, pairs: int) -> Comparison:
    """Compare one Run at a time: what the engine adds to a turn."""
    return await _compared(
        stage, turns, 1, pairs, lambda: stage.run(turns), lambda: stage.bare(turns)
    )


async def together(
    stage: Stage, turns: int, concurrent: int, executions: int, pairs: int
) -> Comparison:
    """Compare many short Runs, `concurrent` of them at a time: what a worker gets through."""
    return await _compared(
        stage,
        turns,
        executions,
        pairs,
        lambda: _many(lambda: stage.run(turns), concurrent, executions),
        lambda: _many(lambda: stage.bare(turns), concurrent, executions),
    )


async def _compared(
    stage: Stage, turns: int, executions: int, pairs: int, runs: Load, bare: Load
) -> Comparison:
    await _sampled(runs, stage.runs_worker)
    await _sampled(bare, stage.bare_worker)  # the first of each is not counted: it warms up
    done: list[Pair] = []
    for number in range(pairs):
        if number % 2:
            bares = await _sampled(bare, stage.bare_worker)
            done.append(Pair(await _sampled(runs, stage.runs_worker), bares))
        else:
            ours = await _sampled(runs, stage.runs_worker)
            done.append(Pair(ours, await _sampled(bare, stage.bare_worker)))
    return Comparison(turns, executions, tuple(done))


async def _sampled(load: Load, worker: int) -> Sample:
    cpu_s, start_s = cpu_seconds(worker), time.perf_counter()
    await load()
    return Sample(time.perf_counter() - start_s, cpu_seconds(worker) - cpu_s)


async def _many(one: Load, concurrent: int, executions: int) -> None:
    left = iter(range(executions))

    async def lane() -> None:
        for _ in left:
            await one()

    async with asyncio.TaskGroup() as lanes:
        for _ in range(concurrent):
            lanes.create_task(lane())
