"""Events that Temporal has deleted, of a Run that goes on."""

from typing import Any

from perdure import Agent, Limits, tool
from perdure.client.live.run import LiveRun
from perdure.client.live.source import Heartbeats
from perdure.runs.deltas import OutputTextDelta, Position, Reset
from perdure.runs.errors import EventsExpired
from perdure.runs.events import EndBase
from tests.client.test_live import until
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, Reply, call, text, tool_calls
from tests.harness.temporal import delete_workflow


@tool(effect="read")
def look(number: int = 0) -> str:
    """Look."""
    return f"seen {number}"


async def deleted(engine: Engine, run_id: str, execution: str) -> int:
    """Delete an execution; return the number of the last Event that went with it."""
    await delete_workflow(engine.client, run_id, execution)
    last: list[int] = []

    async def is_deleted() -> bool:
        try:
            await anext(engine.manager.events(run_id))
        except EventsExpired as exc:
            last.append(exc.last_event)
        return bool(last)

    await soon(is_deleted, 60)
    return last[0]


async def assert_rest_is_told(engine: Engine, run_id: str, last: int, gate: Gate) -> None:
    async with LiveRun(engine.client, run_id, Heartbeats(engine.client)) as live:
        assert live.first == last + 1
        items = live.read(Position(2))
        taken = await until(items, OutputTextDelta)
        assert isinstance(taken[0], Reset)
        assert taken[0].reason == "events_expired"
        assert taken[0].run.last_event > last
        gate.open()
        end = [item async for item in items if item is not None][-1]
    assert isinstance(end, EndBase)
    numbers = [event.sequence_number async for event in engine.manager.events(run_id, last)]
    assert numbers == list(range(last + 1, end.sequence_number + 1))


async def test_after_a_resumption(strict_engine: Engine) -> None:
    engine, gate = strict_engine, Gate()
    engine.model.script([tool_calls(call("look", {})), text("I ", "know.").hold(gate, 2)])
    async with engine.serving(Agent(name="looker", tools=[look], limits=Limits(max_turns=1))):
        failed = await engine.run("looker")
        first = (await engine.client.get_workflow_handle(failed.run_id).describe()).run_id
        await engine.manager.resume(failed.run_id, limits=Limits(max_turns=3))
        last = await deleted(engine, failed.run_id, first)
        assert last == failed.last_event
        await assert_rest_is_told(engine, failed.run_id, last, gate)


async def test_after_it_continued_as_new(strict_engine: Engine) -> None:
    engine, gate, turns = strict_engine, Gate(60), 12

    def reply(request: Any) -> Reply:
        done = sum(message["role"] == "assistant" for message in request.messages)
        if done == turns:
            return text("I ", "know.").hold(gate, 2)
        return tool_calls(call("look", {"number": done}))

    engine.model.respond_with(reply)
    async with engine.serving(Agent(name="looker", tools=[look])):
        run_id = await engine.start("looker")
        await gate.reached
        info = await engine.client.get_workflow_handle(run_id).describe()
        first = info.raw_description.workflow_execution_info.first_run_id
        assert first != info.run_id, "it never continued as new"
        last = await deleted(engine, run_id, first)
        await assert_rest_is_told(engine, run_id, last, gate)
