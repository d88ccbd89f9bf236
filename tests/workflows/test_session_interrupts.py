"""Runs that take the place of the active one: what it said is kept, or forgotten."""

import asyncio

from perdure import Agent, tool
from perdure.runs.messages import AssistantMessage, Message, UserMessage
from perdure.runs.status import RunStatus, StopReason
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


@tool
async def wait_for_ever() -> str:
    """Do something that takes long."""
    await asyncio.sleep(3600)
    return "done"


AGENT = Agent(name="helper", tools=[look, wait_for_ever])


def said(*words: str) -> list[Message]:
    """Return a conversation in which user and assistant take turns."""
    return [
        AssistantMessage(content=text) if number % 2 else UserMessage(content=text)
        for number, text in enumerate(words)
    ]


async def until_heard(engine: Engine, run_id: str, words: str) -> None:
    """Wait until the server knows what a model has said so far."""

    async def is_heard() -> bool:
        steps = await engine.manager.pending_steps(run_id)
        return any(step.partial_text == words for step in steps)

    await soon(is_heard)


async def test_interrupt_keeps_what_was_said_so_far(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2), text("Better.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("interrupted")
        first = await session.start_run("helper", "Tell me all.")
        await until_heard(engine, first.run_id, "Half ")
        second = await session.start_run("helper", "Be brief.", on_busy="interrupt")
        old = await engine.ended(first.run_id)
        new = await engine.ended(second.run_id)
        report = await engine.rest("interrupted")
        conversation = await session.messages()
    assert (old.status, old.stop_reason) == (RunStatus.CANCELLED, StopReason.SUPERSEDED)
    assert old.cancel is not None
    assert (old.cancel.by, second.run_id in old.cancel.reason) == ("session", True)
    assert (second.how, new.output) == ("queued", "Better.")
    assert conversation == said("Tell me all.", "Half ", "Be brief.", "Better.")
    assert engine.model.requests[1].messages[1] == {"role": "assistant", "content": "Half "}
    assert report.runs == 2


async def test_rollback_forgets_what_was_said(engine: Engine) -> None:
    gate = Gate()
    looking = tool_calls(call("look", {"number": 1}))
    engine.model.script([text("Hi."), looking, text("Half").hold(gate), text("Better.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("rolled-back")
        await engine.ended((await session.start_run("helper", "Hello.")).run_id)
        first = await session.start_run("helper", "Look up 1.")
        await gate.reached
        second = await session.start_run("helper", "Look up 2.", on_busy="rollback")
        old = await engine.ended(first.run_id)
        await engine.ended(second.run_id)
        report = await engine.rest("rolled-back")
        conversation = await session.messages()
    assert (old.status, old.stop_reason) == (RunStatus.CANCELLED, StopReason.SUPERSEDED)
    assert old.cancel is not None
    assert old.cancel.mode == "rollback"
    assert conversation == said("Hello.", "Hi.", "Look up 2.", "Better.")
    assert report.usage.model_calls >= 3, "what was forgotten was paid for all the same"


async def test_a_rollback_by_cancel_forgets_as_well(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half").hold(gate), text("Hi.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("cancelled-back")
        first = await session.start_run("helper", "Never said.")
        await gate.reached
        await engine.manager.cancel(first.run_id, mode="rollback")
        await engine.ended(first.run_id)
        await engine.ended((await session.start_run("helper", "Hello.")).run_id)
        await engine.rest("cancelled-back")
        conversation = await session.messages()
    assert conversation == said("Hello.", "Hi.")


async def test_hist_09_what_was_in_flight_is_answered_in_the_conversation(engine: Engine) -> None:
    calls = [call("look", {"number": 1}), call("wait_for_ever", {}), call("wait_for_ever", {})]
    engine.model.script([tool_calls(*calls), text("I see.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("in-flight")
        first = await session.start_run("helper", "Do three things.")

        async def two_run() -> bool:
            steps = (await engine.manager.get_run(first.run_id)).steps
            return [step.status for step in steps[1:]] == ["completed", "running", "running"]

        await soon(two_run)
        second = await session.start_run("helper", "What became of it?", on_busy="interrupt")
        await engine.ended(first.run_id)
        await engine.ended(second.run_id)
        await engine.rest("in-flight")
    sent = engine.model.requests[1].messages
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert sent[2]["content"] == "10"
    assert all("outcome_unknown" in each["content"] for each in sent[3:5])


async def test_the_last_of_many_that_interrupt_has_the_turn(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half").hold(gate)])
    engine.model.respond_with(lambda request: text("Better."))
    async with engine.serving(AGENT):
        session = engine.manager.session("impatient")
        first = await session.start_run("helper", "0")
        queued = await session.start_run("helper", "queued", on_busy="enqueue")
        await gate.reached
        asked = [session.start_run("helper", str(n), on_busy="interrupt") for n in range(1, 5)]
        started = await asyncio.gather(*asked)
        report = await engine.rest("impatient")
        runs = [await engine.manager.get_run(each.run_id) for each in started]
        after = await engine.manager.get_run(queued.run_id)
        conversation = [message.content for message in await session.messages()]
    assert first.how == "begun"
    completed = [run for run in runs if run.status is RunStatus.COMPLETED]
    assert after.status is RunStatus.COMPLETED
    assert completed
    assert all(run.stop_reason is StopReason.SUPERSEDED for run in runs if run not in completed)
    assert conversation[-2:] == ["queued", "Better."]
    assert sorted(filter(str.isdigit, map(str, conversation))) == ["0", "1", "2", "3", "4"]
    assert report.queue == ()


async def test_an_interrupt_in_the_moment_of_the_start(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Hi."))
    async with engine.serving(AGENT):
        for number in range(5):
            session = engine.manager.session(f"moment-{number}")
            both = await asyncio.gather(
                session.start_run("helper", "One."),
                session.start_run("helper", "Two.", on_busy="interrupt"),
                return_exceptions=True,
            )
            assert len(both) == 2
            report = await engine.rest(f"moment-{number}")
            assert report.runs in (1, 2)
