"""Sessions that go on for long: a fresh history in time, with Runs going on and waiting."""

import asyncio

import pytest

from perdure import Agent
from perdure.runs.errors import IdempotencyConflict, SessionBusy
from perdure.runs.status import RunStatus, StopReason
from perdure.sessions.contract import REPORT_MEMO, StartedRun, workflow_id
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, text

AGENT = Agent(name="helper")


def heard(request: RecordedRequest) -> Reply:
    return text(f"Heard: {request.messages[-1]['content']}")


async def parts(engine: Engine, session_id: str) -> list[int]:
    """Return how many events each execution of a Session has."""
    return [len(each.events) for each in await engine.executions(workflow_id(session_id))]


async def test_a_session_continues_as_new_and_forgets_nothing(strict_engine: Engine) -> None:
    engine = strict_engine
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("long")
        await session.configure(SessionSettings(max_queued=7), variables={"city": "Ulm"})
        first = await session.start_run("helper", "first", idempotency_key="k")
        await engine.ended(first.run_id)
        for number in range(15):
            await engine.ended((await session.start_run("helper", str(number))).run_id)
        again = await session.start_run("helper", "first", idempotency_key="k")
        with pytest.raises(IdempotencyConflict):
            await session.start_run("helper", "other", idempotency_key="k")
        report = await engine.rest("long")
        assert await session.variables() == {"city": "Ulm"}
        events = await parts(engine, "long")
        _, *later = await engine.executions(workflow_id("long"))
    began = [each.events[0].workflow_execution_started_event_attributes for each in later]
    # So that nobody who looks in between sees a Session in which nothing goes on.
    assert all(REPORT_MEMO in each.memo.fields for each in began)
    assert (again.run_id, again.how) == (first.run_id, "replayed")
    assert (report.runs, report.messages, report.settings.max_queued) == (16, 32, 7)
    assert len(events) > 2
    assert max(events) < 200


async def test_a_run_that_goes_on_meanwhile_is_noticed_when_it_ends(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([text("At last.").hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("meanwhile")
        active = await session.start_run("helper", "0")
        waiting = [
            (await session.start_run("helper", str(number), on_busy="enqueue")).run_id
            for number in range(1, 4)
        ]
        await gate.reached
        while len(await parts(engine, "meanwhile")) < 3:
            await session.configure(SessionSettings(max_queued=10))
        report = await session.get()
        assert (report.active_run_id, report.queue) == (active.run_id, tuple(waiting))
        with pytest.raises(SessionBusy):
            await session.start_run("helper", "no")
        await engine.manager.cancel(waiting[1])
        gate.open()
        await engine.ended(active.run_id)
        report = await engine.rest("meanwhile")
        conversation = [message.content for message in await session.messages()]
    assert conversation == ["0", "At last.", "1", "Heard: 1", "3", "Heard: 3"]
    assert report.runs == 3


async def test_an_interrupt_reaches_a_run_of_an_earlier_history(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("earlier")
        active = await session.start_run("helper", "0")
        await gate.reached
        while len(await parts(engine, "earlier")) < 2:
            await session.configure(SessionSettings(max_queued=10))
        await session.start_run("helper", "1", on_busy="interrupt")
        run = await engine.ended(active.run_id)
        await engine.rest("earlier")
        assert (await session.messages())[-1].content == "Heard: 1"
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.SUPERSEDED)


async def test_more_ask_at_once_and_more_often_than_temporal_allows(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([text("Hi.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("crowded")
        for _ in range(4):
            asked = [
                session.start_run("helper", "Send.", idempotency_key="one key") for _ in range(12)
            ]
            answers = await asyncio.gather(*asked)
            assert len({each.run_id for each in answers}) == 1
        others = [session.start_run("helper", str(number)) for number in range(8)]
        refused = await asyncio.gather(*others, return_exceptions=True)
        assert {type(each) for each in refused} == {SessionBusy}
        assert isinstance(answers[0], StartedRun)
        gate.open()
        report = await engine.rest("crowded")
        events = await parts(engine, "crowded")
    assert report.runs == 1
    assert len(events) > 1, "more updates than one history may have"


async def test_a_session_is_deleted_in_the_middle_of_it_all(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([text("Never.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("middle")
        active = await session.start_run("helper", "0")
        waits = await session.start_run("helper", "1", on_busy="enqueue")
        while len(await parts(engine, "middle")) < 2:
            await session.configure(SessionSettings(max_queued=10))
        deleted = await session.delete()
    assert set(deleted.run_ids) == {active.run_id, waits.run_id}
