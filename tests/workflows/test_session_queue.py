"""Runs that wait for their turn in a Session: their place, their patience, their end."""

from datetime import timedelta

import pytest

from perdure import Agent, ErrorCode, Timeouts
from perdure.runs.errors import QueueFull, SessionBusy
from perdure.runs.status import RunStatus, StopReason, WaitingOn
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, text

AGENT = Agent(name="helper")


def last_words(request: RecordedRequest) -> Reply:
    """Answer with what was said last, so that the order can be read from the conversation."""
    return text(f"Heard: {request.messages[-1]['content']}")


async def waiting(engine: Engine, run_id: str) -> WaitingOn:
    found = (await engine.manager.get_run(run_id)).waiting_on
    assert found is not None
    return found


async def until_at(engine: Engine, run_id: str, position: int) -> None:
    async def is_there() -> bool:
        return (await waiting(engine, run_id)).queue_position == position

    await soon(is_there)


async def test_runs_have_their_turns_in_the_order_in_which_they_were_asked_for(
    engine: Engine,
) -> None:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    engine.model.respond_with(last_words)
    async with engine.serving(AGENT):
        session = engine.manager.session("order")
        await session.start_run("helper", "0")
        await gate.reached
        asked = [
            await session.start_run("helper", str(number), on_busy="enqueue")
            for number in range(1, 13)
        ]
        assert {each.how for each in asked} == {"queued"}
        report = await session.get()
        assert report.queue == tuple(each.run_id for each in asked)
        await until_at(engine, asked[2].run_id, 3)
        pending = await engine.manager.get_run(asked[2].run_id)
        gate.open()
        report = await engine.rest("order")
        said = [message.content for message in await session.messages()]
        runs = [await engine.manager.get_run(each.run_id) for each in asked]
    assert pending.status is RunStatus.PENDING
    assert pending.waiting_on is not None
    assert (pending.waiting_on.type, pending.started_at) == ("queue", None)
    assert [run.output for run in runs] == [f"Heard: {number}" for number in range(1, 13)]
    assert said[0::2] == [str(number) for number in range(13)]
    assert report.runs == 13


async def test_a_run_that_waits_can_be_cancelled_and_the_others_move_up(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    engine.model.respond_with(last_words)
    async with engine.serving(AGENT):
        session = engine.manager.session("moved")
        await session.start_run("helper", "0")
        one, two = [
            (await session.start_run("helper", words, on_busy="enqueue")).run_id
            for words in ("1", "2")
        ]
        await engine.manager.cancel(one, "never mind")
        run = await engine.ended(one)
        await until_at(engine, two, 1)
        gate.open()
        report = await engine.rest("moved")
        said = [message.content for message in await session.messages()]
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.USER_CANCEL)
    assert (run.started_at, run.steps) == (None, ())
    assert said == ["0", "First.", "2", "Heard: 2"]
    assert report.runs == 2


async def test_no_more_wait_than_are_allowed(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    engine.model.respond_with(last_words)
    async with engine.serving(AGENT):
        session = engine.manager.session("full")
        await session.configure(SessionSettings(max_queued=1))
        active = await session.start_run("helper", "0")
        await session.start_run("helper", "1", on_busy="enqueue")
        with pytest.raises(QueueFull, match="1 are allowed") as refused:
            await session.start_run("helper", "2", on_busy="enqueue")
        assert "max_queued" in refused.value.hint
        with pytest.raises(SessionBusy) as busy:
            await session.start_run("helper", "2")
        assert busy.value.active_run_id == active.run_id
        await session.configure(SessionSettings(max_queued=2))
        await session.start_run("helper", "2", on_busy="enqueue")
        gate.open()
        report = await engine.rest("full")
    assert report.runs == 3


async def test_a_turn_that_does_not_come_in_time_ends_the_run(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("First.").hold(gate)])
    engine.model.respond_with(last_words)
    async with engine.serving(AGENT):
        session = engine.manager.session("patience")
        await session.start_run("helper", "0")
        short = await session.start_run(
            "helper", "1", on_busy="enqueue", timeouts=Timeouts(queue_s=0.5)
        )
        long = await session.start_run("helper", "2", on_busy="enqueue")
        patience = await waiting(engine, long.run_id)
        run = await engine.ended(short.run_id)
        gate.open()
        report = await engine.rest("patience")
        said = [message.content for message in await session.messages()]
    assert patience.since is not None
    assert patience.expires_at is not None
    assert patience.expires_at - patience.since == timedelta(hours=1)
    assert (run.status, run.stop_reason) == (RunStatus.TIMEOUT, StopReason.QUEUE_EXPIRED)
    assert run.error is not None
    assert run.error.code is ErrorCode.QUEUE_EXPIRED
    assert said == ["0", "First.", "2", "Heard: 2"]
    assert report.runs == 2


async def test_a_start_that_would_be_refused_may_not_pass_those_that_wait(engine: Engine) -> None:
    gates = [Gate(), Gate()]
    engine.model.script([text("0.").hold(gates[0]), text("1.").hold(gates[1]), text("2.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("polite")
        first = await session.start_run("helper", "0")
        second = await session.start_run("helper", "1", on_busy="enqueue")
        gates[0].open()
        await engine.ended(first.run_id)
        with pytest.raises(SessionBusy) as refused:
            await session.start_run("helper", "2")
        assert refused.value.active_run_id == second.run_id
        gates[1].open()
        await engine.rest("polite")


async def test_a_run_that_fails_gives_way_to_the_next(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("", finish_reason="content_filter").hold(gate)])
    engine.model.respond_with(last_words)
    async with engine.serving(AGENT):
        session = engine.manager.session("failing")
        first = await session.start_run("helper", "0")
        second = await session.start_run("helper", "1", on_busy="enqueue")
        gate.open()
        failed = await engine.ended(first.run_id)
        run = await engine.ended(second.run_id)
        await engine.rest("failing")
    assert failed.status is RunStatus.FAILED
    assert run.output == "Heard: 1"
