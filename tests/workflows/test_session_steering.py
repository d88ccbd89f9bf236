"""Words for the active Run: they join it, or become a Run of their own, and are never lost."""

import asyncio

from perdure import Agent, tool
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.sessions.contract import workflow_id
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, call, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="helper", tools=[look])


def heard(request: RecordedRequest) -> Reply:
    return text(f"Heard: {request.messages[-1]['content']}")


async def said(engine: Engine, session_id: str) -> list[str | None]:
    return [message.content for message in await engine.manager.session(session_id).messages()]


async def test_what_is_said_joins_the_active_run_before_its_next_model_call(
    engine: Engine,
) -> None:
    gate = Gate()
    engine.model.script([tool_calls(call("look", {"number": 1})).hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("steered")
        first = await session.start_run("helper", "Look up 1.")
        await gate.reached
        second = await session.start_run("helper", "And say why.", on_busy="steer")
        gate.open()
        run = await engine.ended(first.run_id)
        report = await engine.rest("steered")
        conversation = await said(engine, "steered")
    assert (second.how, second.run_id) == ("steered", first.run_id)
    assert run.output == "Heard: And say why."
    assert [each.text for each in run.follow_ups] == ["And say why."]
    assert conversation == ["Look up 1.", None, "10", "And say why.", "Heard: And say why."]
    assert report.runs == 1


async def test_what_is_said_with_a_key_is_said_once(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Hm.").hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("steered-once")
        first = await session.start_run("helper", "1")
        await gate.reached
        asked = [
            session.start_run("helper", "2", on_busy="steer", idempotency_key="k")
            for _ in range(10)
        ]
        answers = await asyncio.gather(*asked)
        gate.open()
        run = await engine.ended(first.run_id)
        await engine.rest("steered-once")
    assert {each.run_id for each in answers} == {first.run_id}
    assert [each.text for each in run.follow_ups] == ["2"]


async def test_nothing_that_is_said_is_lost_whenever_the_run_ends(engine: Engine) -> None:
    engine.model.respond_with(heard)
    words = [str(number) for number in range(1, 13)]
    async with engine.serving(AGENT):
        session = engine.manager.session("never-lost")
        started = [await session.start_run("helper", "0")]
        started += [await session.start_run("helper", each, on_busy="steer") for each in words]
        report = await engine.rest("never-lost")
        conversation = await said(engine, "never-lost")
    users = [each for each in conversation if each in ("0", *words)]
    assert users == ["0", *words]
    assert {each.how for each in started} <= {"begun", "steered", "queued"}
    assert 1 <= report.runs <= len(started)


async def test_what_is_said_too_late_is_a_run_of_its_own(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half").hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("too-late")
        first = await session.start_run("helper", "1")
        await gate.reached
        await engine.client.get_workflow_handle(first.run_id).terminate("by hand")
        second = await session.start_run("helper", "2", on_busy="steer", idempotency_key="k")
        report = await engine.rest("too-late")
        again = await session.start_run("helper", "2", on_busy="steer", idempotency_key="k")
        conversation = await said(engine, "too-late")
        run: Run = await engine.manager.get_run(again.run_id)
    assert second.how in ("begun", "steered")
    assert (run.status, run.output) == (RunStatus.COMPLETED, "Heard: 2")
    assert conversation[-2:] == ["2", "Heard: 2"]
    assert report.runs == 2


async def test_a_session_that_is_idle_begins_a_run(engine: Engine) -> None:
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("steer-idle")
        started = await session.start_run("helper", "1", on_busy="steer")
        report = await engine.rest("steer-idle")
    assert (started.how, report.runs) == ("begun", 1)


async def test_words_for_a_run_that_is_being_interrupted_wait_for_their_turn(
    engine: Engine,
) -> None:
    gate = Gate()
    engine.model.script([text("Half").hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("steer-interrupted")
        await session.start_run("helper", "1")
        await gate.reached
        both = await asyncio.gather(
            session.start_run("helper", "2", on_busy="interrupt"),
            session.start_run("helper", "3", on_busy="steer"),
        )
        await engine.rest("steer-interrupted")
        conversation = await said(engine, "steer-interrupted")
    assert both[0].how == "queued"
    assert [each for each in conversation if each in ("1", "2", "3")] in (
        ["1", "2", "3"],
        ["1", "3", "2"],
    )


async def test_words_are_kept_over_a_fresh_history(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([text("Hm.").hold(gate)])
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        session = engine.manager.session("steer-long")
        first = await session.start_run("helper", "0")
        await gate.reached
        words = [str(number) for number in range(1, 46)]
        for each in words:
            await session.start_run("helper", each, on_busy="steer")
        histories = await engine.executions(workflow_id("steer-long"))
        gate.open()
        run = await engine.ended(first.run_id)
        report = await engine.rest("steer-long")
    assert len(histories) > 1
    assert [each.text for each in run.follow_ups] == words
    assert report.runs == 1


async def test_deleting_a_session_answers_those_who_speak(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("steer-deleted")
        first = await session.start_run("helper", "1")
        await gate.reached
        await session.start_run("helper", "2", on_busy="steer")
        deleted = await session.delete()
        assert deleted.run_ids == (first.run_id,)
