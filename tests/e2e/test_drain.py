"""A worker asked to stop: what runs may end, the rest is handed over; nothing is repeated."""

import json
import signal
import time
from contextlib import AsyncExitStack

import pytest

from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus
from tests.e2e.ledger import Ledger, Worker
from tests.harness.engine import Engine
from tests.harness.processes import Process, ended, said
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, call, text, tool_calls

HEARTBEAT_TIMEOUT_S = 10
"""After which Temporal itself finds out that a worker has died."""


async def asked_to_stop(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    await said(process, "Stopping")


async def test_twenty_unsafe_steps_that_end_within_the_grace_time_count_and_are_not_repeated(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    names = [f"payment {number}" for number in range(20)]
    calls = [call("pay", ledger.entry(name)) for name in names]
    engine.model.script([tool_calls(*calls), text("Paid.")])
    async with worker(grace_s="30") as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written(20)
        await asked_to_stop(first)
        ledger.open()
        assert await ended(first) == 0
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.output == "Paid."
    assert sorted(ledger.lines) == sorted(names)
    assert [each.result for each in run.tool_calls] == [f"recorded {name}" for name in names]


async def test_a_model_call_that_does_not_end_in_time_goes_on_elsewhere_at_once(
    engine: Engine, worker: Worker
) -> None:
    gate = Gate(timeout_s=60)
    half = text("Half ", "an answer").hold(gate, before_chunk=2)
    engine.model.script([half, text("A whole answer.")])
    async with worker(grace_s="1") as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await gate.reached
        async with worker() as second:
            await said(second, "Worker ready")
            await asked_to_stop(first)
            assert await ended(first) == 0
            left_at = time.monotonic()
            run = await engine.ended(run_id)
    assert run.output == "A whole answer."
    assert run.steps[0].attempt == 2
    waited_s = engine.model.requests[1].arrived_at - left_at
    assert waited_s < HEARTBEAT_TIMEOUT_S / 2


async def test_tools_that_do_not_end_in_time_are_told_and_repeated_only_if_that_is_harmless(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    tools = ("look", "pay", "transfer")
    engine.model.script([tool_calls(*[call(t, ledger.entry(t)) for t in tools]), text("Hm.")])
    async with worker(grace_s="1") as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written(3)
        await asked_to_stop(first)
        assert await ended(first) == 0, "a thread that can't be stopped must not keep it"
    ledger.open()
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert sorted(ledger.lines) == ["look", "look", "pay", "transfer", "transfer undone"]
    look, pay, transfer = run.tool_calls
    assert look.result == "recorded look"
    for unsafe in (pay, transfer):
        assert unsafe.error is not None
        assert unsafe.error.code is ErrorCode.OUTCOME_UNKNOWN
        assert "stopped" in unsafe.error.message


async def test_a_tool_that_ignores_its_cancellation_does_not_keep_the_worker(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    engine.model.script([tool_calls(call("insist", ledger.entry("one"))), text("Hm.")])
    async with worker(grace_s="0") as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written()
        await asked_to_stop(first)
        await said(first, "left behind")
        assert await ended(first) == 0
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is ErrorCode.OUTCOME_UNKNOWN
    assert ledger.lines == ["one"]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_asked_twice_stops_at_once(
    engine: Engine, worker: Worker, ledger: Ledger, sent: signal.Signals
) -> None:
    engine.model.script([tool_calls(call("look", ledger.entry("one")))])
    async with worker(grace_s="600") as process:
        await said(process, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written()
        await asked_to_stop(process)
        process.send_signal(sent)
        assert await ended(process) == 128 + sent
    await engine.client.get_workflow_handle(run_id).terminate()


RUNS, DEPLOYMENTS = 10, 3


class Payer:
    """A model that pays twice a turn, slowly, in the name of its Run, until it is enough."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.enough = False

    def __call__(self, request: RecordedRequest) -> Reply:
        if self.enough:
            return text("Paid.")
        name = next(each["content"] for each in request.messages if each["role"] == "user")
        turn = sum(each["role"] == "assistant" for each in request.messages)
        entries = [self.ledger.entry(f"{name} {turn} {half}") for half in ("a", "b")]
        return tool_calls(*[call("pay", entry) for entry in entries]).delayed(0.1)


async def test_runs_go_through_one_deployment_after_the_other_and_pay_everything_once(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    ledger.open()
    model = Payer(ledger)
    engine.model.respond_with(model)
    async with AsyncExitStack() as processes:
        old = await processes.enter_async_context(worker())
        await said(old, "Worker ready")
        run_ids = [await engine.start("clerk", f"run {number}") for number in range(RUNS)]
        for _ in range(DEPLOYMENTS):
            await ledger.written(len(ledger.lines) + 2 * RUNS)
            new = await processes.enter_async_context(worker())
            await said(new, "Worker ready")
            await asked_to_stop(old)
            assert await ended(old) == 0
            old = new
        model.enough = True
        runs = [await engine.ended(run_id) for run_id in run_ids]
    assert [run.output for run in runs] == ["Paid."] * RUNS
    calls = [each for run in runs for each in run.tool_calls]
    assert all(each.error is None for each in calls)
    assert sorted(ledger.lines) == sorted(json.loads(each.arguments)["entry"] for each in calls)
