"""Resuming Runs of a Session: through it, so that the conversation fits."""

import asyncio

import pytest

from perdure import Agent, Limits, tool
from perdure.runs.errors import RunNotResumable, SessionBusy
from perdure.runs.messages import AssistantMessage
from perdure.runs.status import RunStatus
from perdure.sessions.contract import workflow_id
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls
from tests.harness.temporal import delete_workflow


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="helper", tools=[look])
USED = (60, 40)


async def test_a_resumed_run_counts_once_and_is_said_once(engine: Engine) -> None:
    looking = tool_calls(call("look", {"number": 1}), usage=USED)
    engine.model.script([text("Hi.", usage=USED), looking, status(401), text("10.", usage=USED)])
    async with engine.serving(AGENT):
        session = engine.manager.session("resumed")
        await engine.ended((await session.start_run("helper", "Hello.")).run_id)
        run_id = (await session.start_run("helper", "Look.")).run_id
        failed = await engine.ended(run_id)
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
        report = await engine.rest("resumed")
        conversation = await session.messages()
    assert failed.status is RunStatus.FAILED
    assert (run.status, run.output, run.session_id) == (RunStatus.COMPLETED, "10.", "resumed")
    assert (report.runs, report.usage.total_tokens) == (2, 300)
    assert [message.role for message in conversation] == [
        *("user", "assistant", "user", "assistant", "tool", "assistant")
    ]
    assert conversation[-1] == AssistantMessage(content="10.")
    sent = engine.model.requests[3].messages
    assert [each["role"] for each in sent] == [message.role for message in conversation[:-1]]


async def test_a_run_is_not_resumed_where_the_conversation_has_gone_on(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([status(401), text("Two.").hold(gate), status(401)])
    engine.model.respond_with(lambda request: text("Again."))
    async with engine.serving(AGENT):
        session = engine.manager.session("gone-on")
        first = (await session.start_run("helper", "1")).run_id
        await engine.ended(first)
        second = await session.start_run("helper", "2")
        await gate.reached
        with pytest.raises(SessionBusy) as refused:
            await engine.manager.resume(first)
        assert refused.value.active_run_id == second.run_id
        gate.open()
        await engine.ended(second.run_id)
        with pytest.raises(RunNotResumable, match="has gone on") as over:
            await engine.manager.resume(first)
        assert f"fork {first}" in over.value.hint
        third = (await session.start_run("helper", "3")).run_id
        await engine.ended(third)
        await session.clear()
        with pytest.raises(RunNotResumable):
            await engine.manager.resume(third)
        await engine.rest("gone-on")


async def test_while_a_run_is_resumed_the_session_is_busy(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([status(401), text("One.").hold(gate), text("Two.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("resuming")
        run_id = (await session.start_run("helper", "1")).run_id
        await engine.ended(run_id)
        both = await asyncio.gather(
            engine.manager.resume(run_id), engine.manager.resume(run_id), return_exceptions=True
        )
        await gate.reached
        with pytest.raises(SessionBusy):
            await session.start_run("helper", "2")
        second = await session.start_run("helper", "2", on_busy="enqueue")
        gate.open()
        assert (await engine.ended(second.run_id)).output == "Two."
        report = await engine.rest("resuming")
    refusals = [each for each in both if isinstance(each, Exception)]
    assert len(refusals) == 1
    assert isinstance(refusals[0], (RunNotResumable, SessionBusy))
    assert (report.runs, report.messages) == (2, 4)


async def test_a_resumed_run_has_the_budget_that_is_left_without_it(engine: Engine) -> None:
    looking = tool_calls(call("look", {"number": 1}), usage=USED)
    engine.model.script([text("Hi.", usage=USED), looking])
    engine.model.respond_with(lambda request: tool_calls(call("look", {"number": 2}), usage=USED))
    async with engine.serving(AGENT):
        session = engine.manager.session("budget")
        await session.configure(SessionSettings(max_tokens=450))
        await engine.ended((await session.start_run("helper", "Hello.")).run_id)
        run_id = (await session.start_run("helper", "Look.", limits=Limits(max_turns=1))).run_id
        await engine.ended(run_id)
        await engine.manager.resume(run_id, limits=Limits(max_turns=50))
        run = await engine.ended(run_id)
        report = await engine.rest("budget")
    assert run.error is not None
    assert run.error.code == "max_tokens"
    assert (run.usage.total_tokens, report.usage.total_tokens) == (400, 500)


async def test_a_run_whose_session_is_gone_is_resumed_by_itself(engine: Engine) -> None:
    engine.model.script([status(401), text("One.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("no-session")
        run_id = (await session.start_run("helper", "1")).run_id
        await engine.ended(run_id)
        await delete_workflow(engine.client, workflow_id("no-session"))
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert (run.status, run.output) == (RunStatus.COMPLETED, "One.")


async def test_a_run_whose_session_has_expired_is_resumed_by_itself(engine: Engine) -> None:
    engine.model.script([status(401), text("One.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("expired")
        await session.configure(SessionSettings(idle_s=0.5))
        run_id = (await session.start_run("helper", "1")).run_id
        await engine.ended(run_id)
        await engine.client.get_workflow_handle(workflow_id("expired")).result()
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert (run.status, run.output) == (RunStatus.COMPLETED, "One.")


async def test_a_session_that_waits_for_a_resumed_run_leaves_room_for_its_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Step at once, and the Session's wait is another activity of the same worker."""
    monkeypatch.setattr("perdure.activities.session.PATIENCE_S", 0.5)
    engine.settings = engine.settings.model_copy(update={"max_steps": 1})
    # While the Run waits for its next attempt, nothing but the Session's wait wants the place.
    engine.model.script([status(401), status(503), text("10.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("one-place")
        run_id = (await session.start_run("helper", "Go.")).run_id
        await engine.ended(run_id)
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
        report = await engine.rest("one-place")
    assert (run.status, report.active_run_id) == (RunStatus.COMPLETED, None)
