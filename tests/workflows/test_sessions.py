"""Sessions on the real server: what one Run leaves to the next, what they may use together."""

import base64
import json

import pytest

from perdure import Agent, ContextBundle, Limits, tool, tool_context
from perdure.runs.errors import InvalidRequest, SessionLimitReached, SessionNotFound
from perdure.runs.messages import UserMessage
from perdure.runs.status import RunStatus, StopReason
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    call,
    text,
    tool_calls,
)


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


@tool(effect="read")
def place() -> str:
    """Say where we are."""
    return json.dumps(tool_context().variables, sort_keys=True)


AGENT = Agent(name="helper", tools=[look, place])


async def test_the_next_run_knows_what_was_said_tool_calls_and_all(engine: Engine) -> None:
    calls = [call("look", {"number": n}, id=f"c{n}") for n in (1, 2)]
    engine.model.script([tool_calls(*calls), text("Hi Ada."), text("Ada.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("memory")
        first = await session.start_run("helper", "I am Ada.")
        await engine.ended(first.run_id)
        second = await session.start_run("helper", "Who am I?")
        run = await engine.ended(second.run_id)
        report = await engine.rest("memory")
        assert await engine.client.get_workflow_handle(run.run_id).query("status")
    assert (first.how, second.how, run.output) == ("begun", "begun", "Ada.")
    assert (report.runs, report.messages, report.usage.model_calls) == (2, 7, 3)
    assert engine.model.requests[2].messages == [
        {"role": "user", "content": "I am Ada."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"c{n}",
                    "type": "function",
                    "function": {"name": "look", "arguments": f'{{"number": {n}}}'},
                }
                for n in (1, 2)
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "10"},
        {"role": "tool", "tool_call_id": "c2", "content": "20"},
        {"role": "assistant", "content": "Hi Ada."},
        {"role": "user", "content": "Who am I?"},
    ]


async def test_a_start_right_after_an_end_is_never_refused(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Yes."))
    async with engine.serving(AGENT):
        session = engine.manager.session("prompt")
        for number in range(15):
            started = await session.start_run("helper", f"Number {number}?")
            async for _ in engine.manager.events(started.run_id):
                pass
        assert len(await session.messages()) == 30
        report = await engine.rest("prompt")
    assert report.runs == 15


async def test_what_the_runs_of_a_session_may_use_together(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Yes.", usage=(60, 40)))
    async with engine.serving(AGENT):
        session = engine.manager.session("limited")
        await session.configure(SessionSettings(max_tokens=150))
        await engine.ended((await session.start_run("helper", "One?")).run_id)
        await engine.ended((await session.start_run("helper", "Two?")).run_id)
        with pytest.raises(SessionLimitReached, match="200 of 150 tokens") as refused:
            await session.start_run("helper", "Three?")
        assert "max_tokens" in refused.value.hint
        raised = await session.configure(SessionSettings(max_tokens=1000))
        assert raised.settings.max_tokens == 1000
        await engine.ended((await session.start_run("helper", "Three?")).run_id)
        report = await engine.rest("limited")
    assert (report.runs, report.usage.total_tokens) == (3, 300)


async def test_what_is_left_of_them_holds_within_a_run(engine: Engine) -> None:
    engine.model.respond_with(lambda r: tool_calls(call("look", {"number": 1}), usage=(60, 40)))
    async with engine.serving(AGENT):
        session = engine.manager.session("spent")
        await session.configure(SessionSettings(max_tokens=250))
        started = await session.start_run("helper", "Look.", limits=Limits(max_tokens=100_000))
        run = await engine.ended(started.run_id)
        queue_s = await engine.rest("spent")
    assert (run.status, run.stop_reason) == (RunStatus.FAILED, StopReason.MAX_TOKENS)
    assert (run.usage.total_tokens, queue_s.usage.total_tokens) == (300, 300)


async def test_variables_reach_the_tools_and_the_callers_win(engine: Engine) -> None:
    engine.model.script([tool_calls(call("place", {})), text("Here.")] * 2)
    async with engine.serving(AGENT):
        session = engine.manager.session("variables")
        await session.configure(variables={"city": "Ulm", "floor": 2})
        first = await engine.ended((await session.start_run("helper", "Where?")).run_id)
        mine = ContextBundle(variables={"floor": 3})
        second = await session.start_run("helper", "And now?", context=mine)
        run = await engine.ended(second.run_id)
        assert await session.variables() == {"city": "Ulm", "floor": 2}
        await session.configure(SessionSettings(max_queued=3))
        assert await session.variables() == {"city": "Ulm", "floor": 2}
        await engine.rest("variables")
    assert first.tool_calls[0].result == '{"city": "Ulm", "floor": 2}'
    assert run.tool_calls[0].result == '{"city": "Ulm", "floor": 3}'


async def test_a_conversation_is_summed_up_before_the_window_is_full(engine: Engine) -> None:
    agent = Agent(name="narrow", context_window=600)

    def answer(request: RecordedRequest) -> Reply:
        size = sum(len(str(message.get("content"))) for message in request.messages) // 3
        is_summary = request.messages[0]["role"] == "system"  # the agent has no instructions
        return text("A summary." if is_summary else "Blah. " * 20, usage=(size, 40))

    engine.model.respond_with(answer)
    async with engine.serving(agent):
        session = engine.manager.session("narrow")
        for number in range(30):
            started = await session.start_run("narrow", f"Tell me more, {number}. " + "Well? " * 10)
            await engine.manager.wait(started.run_id)
        report = await engine.rest("narrow")
        history = await engine.executions("session/narrow")
        runs = [each.run_id for each in (await session.runs(limit=100)).runs]
        compactions = [len((await engine.manager.get_run(each)).compactions) for each in runs]
    assert sum(compactions) > 2
    assert report.messages < 20
    assert max(len(request.raw) for request in engine.model.requests) < 3_000
    # Of which the Session's own bookkeeping is 6 KB a Run.
    assert sum(event.ByteSize() for part in history for event in part.events) < 30 * 10_000


async def test_a_session_that_never_was_says_so(engine: Engine) -> None:
    async with engine.serving(AGENT):
        session = engine.manager.session("nobody")
        for ask in (session.get, session.variables, session.messages, session.clear):
            with pytest.raises(SessionNotFound):
                await ask()
        with pytest.raises(SessionNotFound):
            await session.delete()
        earlier = ContextBundle(messages=(UserMessage(content="Hello."),))
        with pytest.raises(InvalidRequest, match="gets the conversation from it"):
            await session.start_run("helper", "Hi.", context=earlier)


async def test_a_run_waits_for_nobody_where_the_session_is_idle(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Hi.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("idle")
        started = await session.start_run("helper", "Hi.", on_busy="enqueue")
        await gate.reached
        run = await engine.manager.get_run(started.run_id)
        gate.open()
        await engine.rest("idle")
    assert (started.how, run.status, run.waiting_on) == ("begun", RunStatus.RUNNING, None)


async def test_a_run_without_a_session_pays_nothing_for_them(engine: Engine) -> None:
    engine.model.script([text("Hi.")])
    async with engine.serving(AGENT):
        run = await engine.run("helper", "Hi.")
        (history,) = await engine.histories(run.run_id)
    events = json.loads(history)["events"]
    assert [event["eventType"].removeprefix("EVENT_TYPE_") for event in events] == [
        "WORKFLOW_EXECUTION_STARTED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "ACTIVITY_TASK_SCHEDULED",
        "ACTIVITY_TASK_STARTED",
        "ACTIVITY_TASK_COMPLETED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "WORKFLOW_EXECUTION_COMPLETED",
    ]
    (given,) = events[0]["workflowExecutionStartedEventAttributes"]["input"]["payloads"]
    start = json.loads(base64.b64decode(given["data"]))["start"]
    assert set(start) == {"agent", "input", "context", "limits", "timeouts", "metadata"}
