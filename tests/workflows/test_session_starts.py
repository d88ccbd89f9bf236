"""Starting in a Session: one Run of many that are asked for at once, each request once."""

import asyncio
from collections import Counter

import pytest

from perdure import Agent, Limits
from perdure.runs.errors import IdempotencyConflict, RunAlreadyExists, SessionBusy
from perdure.runs.status import RunStatus
from perdure.sessions.contract import StartedRun, workflow_id
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="helper")
MANY = 50
"""Five times as many as Temporal lets ask one workflow at a time."""


async def test_gate_07_of_many_starts_at_once_one_is_accepted(engine: Engine) -> None:
    gate = Gate(60)
    engine.model.script([text("Hi.").hold(gate), text("Hi again.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("crowd")
        asked = [session.start_run("helper", f"I am {number}.") for number in range(MANY)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await gate.reached
        accepted = [each for each in answers if isinstance(each, StartedRun)]
        refused = [each for each in answers if isinstance(each, SessionBusy)]
        gate.open()
        run = await engine.ended(accepted[0].run_id)
        assert (await session.start_run("helper", "And now?")).how == "begun"
        report = await engine.rest("crowd")
    assert (len(accepted), len(refused)) == (1, MANY - 1), answers
    assert {each.active_run_id for each in refused} == {run.run_id}
    assert all(run.run_id in each.message for each in refused)
    assert (report.runs, report.messages) == (2, 4)


async def test_gate_07_many_with_one_key_get_one_run(engine: Engine) -> None:
    gate = Gate(60)
    engine.model.script([text("Hi.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("doubled")

        def ask(words: str = "Send.", key: str = "k-1") -> "asyncio.Task[StartedRun]":
            return asyncio.create_task(session.start_run("helper", words, idempotency_key=key))

        answers = await asyncio.gather(*[ask() for _ in range(MANY)])
        with pytest.raises(IdempotencyConflict, match="k-1"):
            await ask("Something else.")
        with pytest.raises(SessionBusy):
            await ask(key="k-2")
        gate.open()
        run = await engine.ended(answers[0].run_id)
        later = await ask()
        report = await engine.rest("doubled")
    assert {each.run_id for each in (*answers, later)} == {run.run_id}
    assert Counter(each.how for each in answers) == {"begun": 1, "replayed": MANY - 1}
    assert (report.runs, len(engine.model.requests)) == (1, 1)


async def test_what_was_refused_may_be_asked_again_with_its_key(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("One.").hold(gate), text("Two.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("again")
        first = await session.start_run("helper", "One?")
        with pytest.raises(SessionBusy):
            await session.start_run("helper", "Two?", idempotency_key="k")
        gate.open()
        await engine.ended(first.run_id)
        second = await session.start_run("helper", "Two?", idempotency_key="k")
        report = await engine.rest("again")
    assert (second.how, report.runs) == ("begun", 2)


async def test_many_plain_starts_with_one_key_get_one_run(engine: Engine) -> None:
    engine.model.script([text("Hi.")])
    key = f"plain {engine.task_queue}"
    async with engine.serving(AGENT):
        start = engine.manager.start_run
        asked = [start("helper", "Send.", idempotency_key=key) for _ in range(MANY)]
        run_ids = await asyncio.gather(*asked)
        run = await engine.ended(run_ids[0])
        assert await start("helper", "Send.", idempotency_key=key) == run.run_id
        for words, limits in (("Something else.", None), ("Send.", Limits(max_turns=3))):
            with pytest.raises(IdempotencyConflict, match="plain"):
                await start("helper", words, limits=limits, idempotency_key=key)
    assert set(run_ids) == {run.run_id}
    assert len(engine.model.requests) == 1


async def test_a_run_id_is_never_used_twice_whatever_it_was_used_for(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Plain."), text("One.").hold(gate), text("Two.")])
    name = engine.task_queue
    async with engine.serving(AGENT):
        await engine.run("helper", run_id=f"{name}-plain")
        session = engine.manager.session(name)
        await session.start_run("helper", "One?", run_id=f"{name}-one")
        for on_busy in ("enqueue", "interrupt", "rollback"):
            for taken in ("plain", "one"):
                with pytest.raises(RunAlreadyExists, match=taken):
                    await session.start_run(
                        "helper", "Two?", run_id=f"{name}-{taken}", on_busy=on_busy
                    )
        report = await session.get()
        assert (report.active_run_id, report.queue) == (f"{name}-one", ())
        gate.open()
        run = await engine.ended(f"{name}-one")
        with pytest.raises(RunAlreadyExists):
            await session.start_run("helper", "Two?", run_id=f"{name}-one")
        await session.start_run("helper", "Two?")
        report = await engine.rest(name)
    assert run.status is RunStatus.COMPLETED
    assert (report.runs, report.messages) == (2, 4)


async def test_a_start_whose_id_is_taken_leaves_nothing_behind(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Hi."))
    name = engine.task_queue
    async with engine.serving(AGENT):
        await engine.run("helper", run_id=f"{name}-plain")
        session = engine.manager.session(name)
        taken = {"run_id": f"{name}-plain", "idempotency_key": "k"}
        asked = [session.start_run("helper", "Hi.", **taken) for _ in range(5)]  # type: ignore[arg-type]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in answers] == [RunAlreadyExists] * 5
        assert (await session.start_run("helper", "Hi.", idempotency_key="k")).how == "begun"
        report = await engine.rest(name)
    assert (report.runs, report.messages) == (1, 2)


async def test_whoever_stops_waiting_for_an_answer_is_let_go(engine: Engine) -> None:
    async with engine.serving(AGENT):
        session = engine.manager.session("let-go")
        await session.configure()
    # The worker was there a moment ago; nothing will answer.
    asking = asyncio.create_task(session.start_run("helper", "Is anybody there?"))
    handle = engine.client.get_workflow_handle(workflow_id("let-go"))

    async def is_asked() -> bool:
        return (await handle.describe()).raw_description.HasField("pending_workflow_task")

    await soon(is_asked)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
