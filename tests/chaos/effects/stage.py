"""The Runs of the doomed calls, the workers that die of them, and the person who approves."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from perdure.client.manager import RunManager
from perdure.runs.errors import NoWorker
from perdure.runs.run import Run
from tests.chaos.effects.book import Book, Row
from tests.chaos.effects.points import EFFECTS, Doomed, Point
from tests.chaos.workers import Life, Workers
from tests.harness.engine import soon
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, call, text, tool_calls
from tests.harness.scripted_openai import ScriptedOpenAI

ROOT = Path(__file__).parents[3]
AGENTS = Path(__file__).with_name("agents.py")
PROGRAM = ("-m", "tests.chaos.effects.worker", "--agents", str(AGENTS))
PATIENCE_S = 120.0
"""For one wave: a worker's start and another one, a heartbeat timeout, and the 10 s after which
Temporal gives a workflow task to another worker."""
SAID = "So be it."


@dataclass(frozen=True)
class Seen:
    """What is left to judge."""

    rows: Sequence[Row]
    lives: Sequence[Life]
    runs: dict[str, Run]
    """By the call's entry."""


async def struck(
    client: Client, waves: Sequence[Sequence[Doomed]], folder: Path, lanes: int
) -> Seen:
    """Let all calls of a plan die, and be gone on with.

    Args:
        client: Connected.
        waves: Calls, by the worker that they die with.
        folder: An empty one, for the book and the workers' logs.
        lanes: How many workers there are at a time, each with a task queue of its own.
    """
    runs: dict[str, Run] = {}
    book, left = Book(folder), iter(waves)
    queues = [f"effects-{os.getpid()}-{number}" for number in range(lanes)]
    async with ScriptedOpenAI() as model:
        model.respond_with(_answer)
        environments = [
            os.environ
            | {
                "PERDURE_TASK_QUEUE": queue,
                "OPENAI_BASE_URL": model.base_url,
                "OPENAI_API_KEY": "no-key",
                "CHAOS_FOLDER": str(folder),
                "PYTHONPATH": str(ROOT),
            }
            for queue in queues
        ]
        workers = Workers(environments, folder, PROGRAM)
        async with workers.running(), asyncio.TaskGroup() as group:
            for queue in queues:
                group.create_task(_lane(RunManager(client, queue), left, book, runs))
    assert model.violations == []
    return Seen(book.rows(), workers.lives, runs)


async def _lane(
    manager: RunManager, left: Iterator[Sequence[Doomed]], book: Book, runs: dict[str, Run]
) -> None:
    for wave in left:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            for doomed in wave:
                group.create_task(_run(manager, doomed, wave, book))
        for doomed in wave:
            runs[doomed.entry] = await manager.get_run(doomed.entry)


async def _run(manager: RunManager, doomed: Doomed, wave: Sequence[Doomed], book: Book) -> None:
    asked = json.dumps({"tool": EFFECTS[doomed.effect], "arguments": doomed.arguments})
    while True:
        try:
            await manager.start_run("clerk", asked, run_id=doomed.entry)
            break
        except NoWorker:
            await asyncio.sleep(0.2)
    if doomed.gated:
        await _approve(manager, doomed, wave, book)
    await manager.wait(doomed.entry)


async def _approve(manager: RunManager, doomed: Doomed, wave: Sequence[Doomed], book: Book) -> None:
    others = {each.entry for each in wave if each.point is not Point.APPROVED}

    async def is_asked() -> bool:
        return (await manager.get_run(doomed.entry)).waiting_on is not None

    async def others_are_there() -> bool:
        return others <= {row.entry for row in book.rows() if row.kind == "at"}

    await soon(is_asked, PATIENCE_S)
    if doomed.point is Point.APPROVED:
        # It dies at once, as workflow code can't wait for the others.
        await soon(others_are_there, PATIENCE_S)
    await manager.approve(doomed.entry, "action_1", by="ann")


def _answer(request: RecordedRequest) -> Reply:
    if request.messages[-1]["role"] == "tool":
        return text(SAID)
    asked = json.loads(next(m["content"] for m in request.messages if m["role"] == "user"))
    return tool_calls(call(asked["tool"], asked["arguments"]))
