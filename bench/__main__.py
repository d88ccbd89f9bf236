"""`python -m bench`: measure, and print one table. Progress goes to standard error."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bench import (
    calls,
    costs,
    history,
    pairs,
    recovery,
    report,
    sessions,
    stopping,
    streams,
    traces,
)
from bench.costs_report import costs_section
from bench.exchange import exchange_s
from bench.processes import machine, memory_mib
from bench.stage import Stage, staged
from bench.streams_report import streams_section
from bench.traces_report import traces_section

Section = tuple[str, list[report.Row]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    history_turns: tuple[int, ...] = (1, 5, 50, 200)
    """The first one is what a Run costs once; each other one is compared with its left."""
    alone_turns: int = 30
    alone_pairs: int = 20
    together_turns: int = 3
    together_concurrent: int = 32
    together_executions: int = 96
    together_pairs: int = 8
    cancels: int = 100
    standby_times: int = 5
    cold_turns: int = 200
    session_runs: int = 200
    idle_sessions: int = 1000
    calls: int = 32
    call_rounds: int = 15
    followers: int = 200
    first_words: int = 5
    cost_turns: int = 10
    cost_runs: int = 50
    traced_rounds: int = 40


Part = Callable[[Stage, Sizes], Awaitable[Section]]

QUICK = Sizes(
    history_turns=(1, 5, 20),
    alone_pairs=3,
    together_executions=32,
    together_pairs=2,
    cancels=12,
    standby_times=1,
    cold_turns=20,
    session_runs=20,
    idle_sessions=40,
    calls=8,
    call_rounds=2,
    followers=20,
    first_words=2,
    cost_runs=4,
    traced_rounds=3,
)
"""Shows in about two minutes that everything works; its numbers are no results."""


async def bench(sizes: Sizes) -> None:
    """Measure everything and print the table."""
    _say("starting server, model and workers")
    async with staged() as stage:
        lines = await machine(stage.client)
        idle = memory_mib(stage.runs_worker, "VmRSS")
        histories: list[history.History] = []
        for turns in sizes.history_turns:
            _say(f"history of a Run of {turns} turns")
            histories.append(await history.measured(stage, turns))
        _say(f"{sizes.alone_pairs} pairs of one Run of {sizes.alone_turns} turns")
        alone = await pairs.alone(stage, sizes.alone_turns, sizes.alone_pairs)
        exchange = await exchange_s(stage.model_url, sizes.alone_turns)
        _say(f"{sizes.together_pairs} pairs of {sizes.together_executions} Runs together")
        together = await pairs.together(
            stage,
            sizes.together_turns,
            sizes.together_concurrent,
            sizes.together_executions,
            sizes.together_pairs,
        )
        memory = report.Memory(
            runs=memory_mib(stage.runs_worker, "VmHWM"),
            bare=memory_mib(stage.bare_worker, "VmHWM"),
            runs_idle=idle,
        )
        _say(f"{sizes.cancels} cancels at random moments")
        cancels = await stopping.cancels(stage, sizes.cancels)
        _say(f"{sizes.standby_times} times kill -9 in a model call")
        by_standby = await recovery.by_standby(stage, sizes.standby_times)
        _say(f"a Run of {sizes.cold_turns} turns on a fresh worker")
        cold = await recovery.cold_start(stage, sizes.cold_turns)
        _say(f"{sizes.session_runs} Runs through one Session")
        talk = await sessions.talk(stage, sizes.session_runs)
        _say(f"{sizes.idle_sessions} idle Sessions")
        untalked = await sessions.idle(stage, sizes.idle_sessions)
        section = await _calls(stage, sizes)
        streamed = await _streams(stage, sizes)
        cost = await _costs(stage, sizes)
        traced = await _traces(stage, sizes)
    titled = report.sections(
        (histories, history.growths(histories)),
        (alone, exchange),
        (together, sizes.together_concurrent),
        memory,
        (cancels, by_standby, cold),
        (talk, untalked),
    )
    report.show(lines, [*titled, section, streamed, cost, traced])


async def _costs(stage: Stage, sizes: Sizes) -> Section:
    _say(f"{sizes.cost_runs} Runs of {sizes.cost_turns} turns")
    return costs_section(await costs.measured(stage, sizes.cost_turns, sizes.cost_runs))


async def _traces(stage: Stage, sizes: Sizes) -> Section:
    _say(f"{sizes.traced_rounds} rounds of Runs with and without Traces")
    found = await traces.measured(stage, sizes.alone_turns, sizes.traced_rounds)
    return traces_section(found, sizes.alone_turns)


async def _streams(stage: Stage, sizes: Sizes) -> Section:
    _say(f"{sizes.followers} followers of one Run, and of one Run each")
    found = await streams.measured(stage, sizes.followers, sizes.first_words)
    return streams_section(found)


async def bench_part(part: Part, sizes: Sizes) -> None:
    """Measure only one part."""
    async with staged() as stage:
        lines = await machine(stage.client)
        section = await part(stage, sizes)
    report.show(lines, [section])


async def _calls(stage: Stage, sizes: Sizes) -> Section:
    _say(f"{sizes.call_rounds} Runs of {sizes.calls} tool calls of each kind")
    return report.calls_section(await calls.measured(stage, sizes.calls, sizes.call_rounds))


async def _interruptible(work: Coroutine[Any, Any, None]) -> None:
    # Being asked to stop must not leave a server and three processes behind; Ctrl-C does not.
    measuring = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    await measuring


def _say(line: str) -> None:
    sys.stderr.write(f"bench: {line} …\n")


PARTS = {"calls": _calls, "streams": _streams, "costs": _costs, "traces": _traces}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test of about two minutes")
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true", help=f"only the part about {name}")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    if sizes is QUICK:
        _say("quick form: its numbers are no results")
    chosen = next((part for name, part in PARTS.items() if getattr(options, name)), None)
    work = bench(sizes) if chosen is None else bench_part(chosen, sizes)
    asyncio.run(_interruptible(work))


if __name__ == "__main__":
    main()
