"""Changing a Session: clearing, forking and deleting it, and finding it."""

import pytest

from perdure import Agent, tool
from perdure.runs.errors import InvalidRequest, RunNotFound, SessionBusy, SessionNotFound
from perdure.runs.status import RunStatus
from perdure.sessions.contract import workflow_id
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, call, text, tool_calls
from tests.harness.temporal import exists


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="helper", tools=[look])


def heard(request: RecordedRequest) -> Reply:
    return text(f"Heard: {request.messages[-1]['content']}")


async def talk(engine: Engine, session_id: str, *words: str) -> list[str]:
    """Let one Run follow the other, and return their ids."""
    session = engine.manager.session(session_id)
    run_ids = []
    for each in words:
        run_ids.append((await session.start_run("helper", each)).run_id)
        await engine.ended(run_ids[-1])
    return run_ids


async def said(engine: Engine, session_id: str) -> list[str | None]:
    return [message.content for message in await engine.manager.session(session_id).messages()]


async def test_clear_forgets_what_was_said_and_nothing_else(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Hi."), text("Busy.").hold(gate), text("Anew.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("cleared")
        await session.configure(SessionSettings(max_queued=7), variables={"city": "Ulm"})
        await talk(engine, "cleared", "Hello.")
        started = await session.start_run("helper", "Work.")
        await gate.reached
        with pytest.raises(SessionBusy) as refused:
            await session.clear()
        assert refused.value.active_run_id == started.run_id
        gate.open()
        await engine.ended(started.run_id)
        report = await session.clear()
        assert (report.messages, report.runs, report.variables) == (0, 2, {"city": "Ulm"})
        await talk(engine, "cleared", "Who am I?")
        report = await engine.rest("cleared")
    assert [each["content"] for each in engine.model.requests[2].messages] == ["Who am I?"]
    assert (report.runs, report.usage.model_calls, report.settings.max_queued) == (3, 3, 7)


async def test_a_fork_goes_its_own_way_from_now_or_from_a_run(engine: Engine) -> None:
    engine.model.script([tool_calls(call("look", {"number": 1}, id="c1"))])
    engine.model.respond_with(heard)
    name = engine.task_queue
    async with engine.serving(AGENT):
        session = engine.manager.session(name)
        await session.configure(SessionSettings(max_tokens=9999), variables={"city": "Ulm"})
        first, _ = await talk(engine, name, "1", "2")
        now = await session.fork(f"{name}-now")
        then = await session.fork(f"{name}-then", run_id=first)
        for each in (now, then):
            await talk(engine, each.session_id, "3")
        await talk(engine, name, "4")
        reports = [await engine.rest(each.session_id) for each in (session, now, then)]
        conversations = [await said(engine, each.session_id) for each in (session, now, then)]
        assert await then.variables() == {"city": "Ulm"}
    one, two = [["1", None, "10", "Heard: 10"], ["2", "Heard: 2"]]
    assert conversations == [
        [*one, *two, "4", "Heard: 4"],
        [*one, *two, "3", "Heard: 3"],
        [*one, "3", "Heard: 3"],
    ]
    assert [report.forked_from for report in reports] == [None, name, name]
    assert [report.runs for report in reports] == [3, 1, 1]
    assert all(report.settings.max_tokens == 9999 for report in reports)


async def test_what_can_not_be_forked_is_refused(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Plain."), text("Hi."), text("Slow.").hold(gate)])
    name = engine.task_queue
    async with engine.serving(AGENT):
        plain = await engine.run("helper")
        session = engine.manager.session(name)
        with pytest.raises(SessionNotFound):
            await session.fork(f"{name}-x")
        await talk(engine, name, "1")
        active = await session.start_run("helper", "2")
        for run_id in (plain.run_id, active.run_id):
            with pytest.raises(InvalidRequest, match="that has ended"):
                await session.fork(f"{name}-x", run_id=run_id)
        with pytest.raises(RunNotFound):
            await session.fork(f"{name}-x", run_id="nothing")
        with pytest.raises(InvalidRequest, match="There is a Session"):
            await session.fork(name)
        gate.open()
        await engine.rest(name)


async def test_delete_leaves_nothing_in_temporal(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate()
    lead = Agent(name="lead", tools=[AGENT.as_tool()])
    called = tool_calls(call("helper", {"input": "Hi?"}))
    engine.model.script([called, text("Hi."), text("Hi."), text("Half").hold(gate)])
    async with engine.serving(AGENT, lead):
        session = engine.manager.session("deleted")
        first = (await session.start_run("lead", "1")).run_id
        await engine.rest("deleted")
        active = await session.start_run("helper", "2")
        waits = await session.start_run("helper", "3", on_busy="enqueue")
        await gate.reached
        deleted = await session.delete()
        assert set(deleted.run_ids) == {first, f"{first}.2", active.run_id, waits.run_id}
        for each in (workflow_id("deleted"), *deleted.run_ids):

            async def is_gone(name: str = each) -> bool:
                return not await exists(engine.client, name)

            await soon(is_gone)
        with pytest.raises(SessionNotFound):
            await session.get()

        async def is_unknown() -> bool:
            try:
                await session.delete()
            except SessionNotFound:
                return True
            return False

        await soon(is_unknown)
        engine.model.respond_with(heard)
        await talk(engine, "deleted", "Anew.")
        assert await said(engine, "deleted") == ["Anew.", "Heard: Anew."]


async def test_sessions_and_their_runs_are_listed_in_pages(engine: Engine) -> None:
    engine.model.respond_with(heard)
    async with engine.serving(AGENT):
        names = [f"{engine.task_queue}-{number}" for number in range(3)]
        for name in names:
            await talk(engine, name, "1")
        run_ids = await talk(engine, names[0], "2", "3")

        async def are_listed() -> bool:
            found = (await engine.manager.list_sessions(limit=50)).sessions
            runs = {each.session_id: each.runs for each in found}
            return [runs.get(name) for name in names] == [3, 1, 1]

        await soon(are_listed)
        page = await engine.manager.list_sessions(limit=2)
        following = await engine.manager.list_sessions(limit=2, cursor=page.next_cursor)
        session = engine.manager.session(names[0])

        async def runs_are_listed() -> bool:
            found = (await session.runs()).runs
            return [run.status for run in found] == [RunStatus.COMPLETED] * 3

        await soon(runs_are_listed)
        runs = await session.runs(limit=2)
        rest = await session.runs(limit=2, cursor=runs.next_cursor)
    listed = [each.session_id for each in (*page.sessions, *following.sessions)]
    assert listed[:3] == names[::-1]
    assert all(each.is_open and each.total_tokens > 0 for each in page.sessions)
    assert [each.run_id for each in runs.runs] == run_ids[::-1]
    assert (len(rest.runs), rest.next_cursor) == (1, None)
