"""`kill -9` of real workers in the middle of Steps: nothing is lost, nothing done is repeated."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.processes import kill, perdure, said
from tests.harness.scripted_openai import Gate, call, text, tool_calls

AGENTS = str(Path(__file__).with_name("ledger_agents.py"))


@pytest.fixture
def worker(engine: Engine) -> Callable[[], AbstractAsyncContextManager]:  # type: ignore[type-arg]
    """Return what starts a worker process for the test's task queue."""
    env = {
        "PERDURE_TASK_QUEUE": engine.task_queue,
        "OPENAI_BASE_URL": engine.model.base_url,
        "OPENAI_API_KEY": "test-key-1234",
    }
    return lambda: perdure("worker", "--agents", AGENTS, env=env)


def lines_of(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


async def begun(ledger: Path) -> None:
    """Wait until a tool has written its line."""

    async def written() -> bool:
        return bool(lines_of(ledger))

    await soon(written)


async def test_a_worker_killed_in_a_model_call_is_replaced(
    engine: Engine,
    worker: Callable[[], AbstractAsyncContextManager],
    tmp_path: Path,  # type: ignore[type-arg]
) -> None:
    ledger = tmp_path / "ledger"
    ledger.with_suffix(".open").touch()
    gate = Gate(timeout_s=60)
    arguments = {"ledger": str(ledger), "entry": "one"}
    engine.model.script(
        [
            tool_calls(call("look", arguments)),
            text("Half ", "an answer").hold(gate, before_chunk=2),
            text("A whole answer."),
        ]
    )
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await gate.reached
        await kill(first)
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.output == "A whole answer."
    assert run.steps[2].attempt == 2
    assert lines_of(ledger) == ["one"]
    # One request for the first Step, two for the one in which the worker died.
    assert len(engine.model.requests) == 3
    assert [len(r.messages) for r in engine.model.requests] == [2, 4, 4]


async def test_a_worker_killed_in_a_reading_tool_is_replaced_and_the_tool_run_again(
    engine: Engine,
    worker: Callable[[], AbstractAsyncContextManager],
    tmp_path: Path,  # type: ignore[type-arg]
) -> None:
    ledger = tmp_path / "ledger"
    arguments = {"ledger": str(ledger), "entry": "one"}
    engine.model.script([tool_calls(call("look", arguments)), text("Done.")])
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await begun(ledger)
        await kill(first)
    ledger.with_suffix(".open").touch()
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].result == "recorded one"
    assert run.steps[1].attempt == 2
    assert lines_of(ledger) == ["one", "one"]
    assert len(engine.model.requests) == 2


async def test_an_unsafe_tool_whose_worker_died_is_never_run_again(
    engine: Engine,
    worker: Callable[[], AbstractAsyncContextManager],
    tmp_path: Path,  # type: ignore[type-arg]
) -> None:
    ledger = tmp_path / "ledger"
    arguments = {"ledger": str(ledger), "entry": "one"}
    engine.model.script([tool_calls(call("pay", arguments)), text("I do not know.")])
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await begun(ledger)
        await kill(first)
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is ErrorCode.OUTCOME_UNKNOWN
    assert "outcome_unknown" in engine.model.requests[1].messages[-1]["content"]
    assert lines_of(ledger) == ["one"]
