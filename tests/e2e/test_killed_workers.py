"""`kill -9` of real workers in the middle of Steps: nothing is lost, nothing done is repeated."""

from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus
from tests.e2e.ledger import Ledger, Worker
from tests.harness.engine import Engine, soon
from tests.harness.processes import kill, said
from tests.harness.scripted_openai import Gate, call, text, tool_calls


async def test_a_worker_killed_in_a_model_call_is_replaced(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    ledger.open()
    gate = Gate(timeout_s=60)
    arguments = ledger.entry("one")
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
    assert ledger.lines == ["one"]
    # One request for the first Step, two for the one in which the worker died.
    assert len(engine.model.requests) == 3
    assert [len(r.messages) for r in engine.model.requests] == [2, 4, 4]


async def test_a_worker_killed_in_a_reading_tool_is_replaced_and_the_tool_run_again(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    arguments = ledger.entry("one")
    engine.model.script([tool_calls(call("look", arguments)), text("Done.")])
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written()
        await kill(first)
    ledger.open()
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].result == "recorded one"
    assert run.steps[1].attempt == 2
    assert ledger.lines == ["one", "one"]
    assert len(engine.model.requests) == 2


async def test_an_unsafe_tool_whose_worker_died_is_never_run_again(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    arguments = ledger.entry("one")
    engine.model.script([tool_calls(call("pay", arguments)), text("I do not know.")])
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await ledger.written()
        await kill(first)
    async with worker() as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is ErrorCode.OUTCOME_UNKNOWN
    assert "outcome_unknown" in engine.model.requests[1].messages[-1]["content"]
    assert ledger.lines == ["one"]


async def test_a_person_may_say_what_a_tool_did_whose_worker_died(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    arguments = ledger.entry("one")
    engine.model.script([tool_calls(call("pay", arguments, id="A")), text("It is paid.")])
    async with worker() as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk", on_unknown="ask")
        await ledger.written()
        await kill(first)
    async with worker() as second:
        await said(second, "Worker ready")

        async def asks() -> bool:
            run = await engine.manager.get_run(run_id)
            return run.waiting_on is not None and run.waiting_on.type == "input"

        await soon(asks, 60)
        assert len(engine.model.requests) == 1
        await engine.manager.answer(run_id, "A", "The ledger has it.", by="ann")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.actions_asked == 1
    assert "outcome_unknown" in engine.model.requests[1].messages[-1]["content"]
    assert "The ledger has it." in engine.model.requests[1].messages[-1]["content"]
    assert ledger.lines == ["one"]
