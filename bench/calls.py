"""What a tool call costs, by what executes it, and what many calls of one turn do.

All ratios are of one run: each round executes one Run of each kind, right after one another, and
which goes first changes from round to round.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from temporalio.client import Client

from bench.stage import NO_LIMITS, Stage, worker
from perdure.client.manager import RunManager
from perdure.runs.status import RunStatus
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, call, text, tool_calls
from tests.harness.scripted_openai import ScriptedOpenAI

QUEUE = "bench-calls"
AGENTS = str(Path(__file__).with_name("call_agents.py"))
TOOLS = {"function": "echo", "MCP server": "s__echo", "agent": "ask_helper"}
"""The tool of each kind; what is said to each is as long."""
PLAIN, TOGETHER = "function", "together"
SAID = "Entry 1 of the log"


@dataclass(frozen=True)
class Cost:
    """What one call costs."""

    seconds: float
    """Median, of the model call that asks for it, too; for calls of one turn, the call alone."""
    ratio: float
    """Median of the rounds' ratios of time to a call of a function, one a turn."""
    middle_half: tuple[float, float]
    """Between which of these ratios the middle half of the rounds lies."""
    bytes: float
    """Of history that each call adds, that of another agent's Run included."""
    events: float


@dataclass(frozen=True)
class Calls:
    """All kinds of calls, one a turn; and calls of a function that one turn asks for."""

    calls: int
    """In each Run."""
    rounds: int
    costs: Mapping[str, Cost]


async def measured(stage: Stage, calls: int, rounds: int) -> Calls:
    """Execute the Runs and size their histories.

    Args:
        stage: Where.
        calls: In each Run: one a turn, and all in one turn.
        rounds: Runs of each kind; one more is not counted, it warms up.
    """
    asked = {kind: (tool, calls, 1) for kind, tool in TOOLS.items()}
    asked[TOGETHER] = (TOOLS[PLAIN], 1, calls)
    took: list[dict[str, float]] = []
    async with ScriptedOpenAI(record=False) as model:
        model.respond_with(_answer)
        async with worker(stage, QUEUE, model.base_url, AGENTS):
            manager = RunManager(stage.client, QUEUE)
            base = await _size(manager, await _run(manager, ("echo", 0, 0)))
            sizes = {
                kind: await _size(manager, await _run(manager, said))
                for kind, said in asked.items()
            }
            for number in range(rounds):
                kinds = list(asked) if number % 2 else list(reversed(asked))
                took.append({kind: await _seconds(manager, asked[kind]) for kind in kinds})
    costs: dict[str, Cost] = {}
    for kind, (size, events) in sizes.items():
        ratios = [each[kind] / each[PLAIN] for each in took]
        first, middle, third = quantiles(ratios, method="inclusive")
        costs[kind] = Cost(
            seconds=median(each[kind] for each in took) / calls,
            ratio=middle,
            middle_half=(first, third),
            bytes=(size - base[0]) / calls,
            events=(events - base[1]) / calls,
        )
    return Calls(calls=calls, rounds=rounds, costs=costs)


async def _seconds(manager: RunManager, asked: tuple[str, int, int]) -> float:
    start_s = time.perf_counter()
    await _run(manager, asked)
    return time.perf_counter() - start_s


async def _run(manager: RunManager, asked: tuple[str, int, int]) -> str:
    said = "Call {} in {} turns of {} calls.".format(*asked)
    run_id = await manager.start_run("caller", said, limits=NO_LIMITS)
    run = await manager.wait(run_id)
    if run.status is not RunStatus.COMPLETED or any(each.error for each in run.tool_calls):
        raise RuntimeError(f"Run {run_id} went wrong: its numbers would mean nothing")
    return run_id


async def _size(manager: RunManager, run_id: str) -> tuple[int, int]:
    """Return bytes and events of a Run's history, and of those that are its Steps."""
    run = await manager.get_run(run_id)
    children = [step.child_run_id for step in run.steps if step.child_run_id]
    found = [await _history(manager.client, each) for each in (run_id, *children)]
    return sum(size for size, _ in found), sum(events for _, events in found)


async def _history(client: Client, workflow: str) -> tuple[int, int]:
    handle = client.get_workflow_handle(workflow)
    sizes = [event.ByteSize() async for event in handle.fetch_history_events()]
    return sum(sizes), len(sizes)


def _answer(request: RecordedRequest) -> Reply:
    """Play as many turns as the first message says; another agent just says it back."""
    asked = next(m["content"] for m in request.messages if m["role"] == "user").split()
    turn = sum(message["role"] == "assistant" for message in request.messages)
    if asked[0] != "Call" or turn >= int(asked[3]):
        return text(f"echo: {SAID}")
    argument = "input" if asked[1] == TOOLS["agent"] else "text"
    return tool_calls(*[call(asked[1], {argument: SAID}) for _ in range(int(asked[6]))])
