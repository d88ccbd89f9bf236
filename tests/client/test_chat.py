"""`perdure chat` on a real terminal, with real processes: what a person types and reads."""

import asyncio
import contextlib
from typing import Unpack

import pytest

from perdure import Agent, Limits, tool
from perdure.client.cli.chat.turn import Message, Turn
from perdure.client.launch import RunOptions
from perdure.client.sessions import SessionHandle
from perdure.runs import messages
from perdure.runs.errors import EngineUnavailable
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.sessions.contract import StartedRun
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.harness.terminal import CTRL_C, CTRL_D, on_terminal


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


AGENT = Agent(name="assistant", tools=[double])


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


async def all_said(engine: Engine, session_id: str, count: int) -> list[messages.Message]:
    """Return the conversation, once the Session has noticed the end of its latest Run."""
    session = engine.manager.session(session_id)

    async def is_there() -> bool:
        return len(await session.messages()) == count

    await soon(is_there)
    return await session.messages()


async def test_a_conversation_is_left_and_taken_up_again_with_its_history(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script(
        [
            tool_calls(call("double", {"number": 21})),
            text("It is", " 42.").hold(gate, before_chunk=2),
            text("You asked about 21."),
        ]
    )
    async with engine.serving(AGENT):
        async with on_terminal("chat", env=env) as chat:
            begun = await chat.shows("\n> ")
            session_id = begun.split("New Session ")[1].split(",")[0]
            chat.say("Double 21.")
            await chat.shows('✓ double({"number": 21}) → 42')
            await chat.shows("It is")  # while the model has not ended
            gate.open()
            await chat.shows(" 42.\n")
            await chat.shows(" tokens · ")
            await chat.shows("> ")
            chat.type(CTRL_D)
            await chat.shows(f"perdure chat {session_id}")
            assert await chat.ended() == 0
        async with on_terminal("chat", session_id, env=env) as again:
            await again.shows("> Double 21.")
            await again.shows("It is 42.")
            await again.shows("\n> ")
            again.say("What did I ask?")
            await again.shows("You asked about 21.")
            await again.shows(" tokens · ")
            again.say("/quit")
            assert await again.ended() == 0
    assert engine.model.violations == []


async def test_ctrl_c_cancels_the_run_and_keeps_the_session_with_the_partial_answer(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Half ", "of it").hold(gate, before_chunk=2), text("On we go.")])
    async with engine.serving(AGENT), on_terminal("chat", "s-ctrl-c", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Tell all.")
        await chat.shows("Half")
        chat.type(CTRL_C)
        await chat.shows("Cancelling")
        await chat.shows("Cancelled. What was said is kept.")
        await chat.shows("\n> ")
        chat.say("Go on.")
        await chat.shows("On we go.")
        await chat.shows(" tokens · ")
        await chat.shows("\n> ")
        await chat.interrupt_prompt("perdure chat s-ctrl-c")
        assert await chat.ended() == 0
        said = await all_said(engine, "s-ctrl-c", 4)
        cancelled = (await engine.manager.session("s-ctrl-c").runs()).runs[-1]
    assert said == [
        UserMessage(content="Tell all."),
        AssistantMessage(content="Half "),
        UserMessage(content="Go on."),
        AssistantMessage(content="On we go."),
    ]
    assert cancelled.status == "cancelled"
    assert engine.model.violations == []


async def test_ctrl_c_twice_leaves_at_once(engine: Engine, env: dict[str, str]) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("wait", {}))])

    @tool(effect="read")
    async def wait() -> str:
        """Wait, and do not stop when told to."""
        with contextlib.suppress(asyncio.CancelledError):
            await gate.pass_through()
        await gate.pass_through()
        return "done"

    busy = Agent(name="assistant", tools=[wait])
    async with engine.serving(busy), on_terminal("chat", "s-twice", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Wait.")
        await chat.shows("wait … ")
        chat.type(CTRL_C)
        await chat.shows("Cancelling")
        chat.type(CTRL_C)
        await chat.shows("perdure chat s-twice")
        assert await chat.ended() == 130
        gate.open()


async def test_commands_show_usage_fork_and_clear_the_session(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script([text("Hello.", usage=(100, 20)), text("You said hi."), text("Nothing.")])
    async with engine.serving(AGENT), on_terminal("chat", "s-base", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("/usage")
        await chat.shows("Nothing was said yet.")
        chat.say("/nope")
        await chat.shows("no command /nope")
        chat.say("Hi.")
        await chat.shows("120 tokens · ")
        await chat.shows("> ")
        chat.say("/usage")
        assert "none" in await chat.shows("Messages")  # no active Run
        await chat.shows("120")
        chat.say("/fork s-other")
        await chat.shows("This is Session s-other now; the other one stays: perdure chat s-base")
        chat.say("What did I say?")
        await chat.shows("You said hi.")
        await chat.shows(" tokens · ")
        await chat.shows("> ")
        chat.say("/clear")
        await chat.shows("is forgotten")
        chat.say("What did I say?")
        await chat.shows("Nothing.")
        await chat.shows(" tokens · ")
        await chat.shows("> ")
        chat.type(CTRL_D)
        await chat.shows("perdure chat s-other")
        assert await chat.ended() == 0
        await all_said(engine, "s-base", 2)
        await all_said(engine, "s-other", 2)
    asked = [
        [m["content"] for m in r.messages if m["role"] == "user"] for r in engine.model.requests
    ]
    assert asked == [["Hi."], ["Hi.", "What did I say?"], ["What did I say?"]]


async def test_a_failed_run_is_explained_and_what_is_pasted_is_one_message(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script([text("Two lines.")])
    async with engine.serving(AGENT), on_terminal("chat", "--agent", "nobody", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Hi.")
        await chat.shows("agent_not_found")
        chat.say("/agent assistant")
        await chat.shows("The agent is assistant.")
        await chat.shows("\n> ")
        chat.paste("one\ntwo")
        chat.type("\r")
        await chat.shows("Two lines.")
        await chat.shows("\n> ")
        chat.type("half a thought")
        await chat.shows("half a thought")
        await chat.interrupt_prompt("\n> ")  # it is dropped, and no more happens
        chat.say("/quit")
        assert await chat.ended() == 0
    assert engine.model.requests[0].messages[-1]["content"] == "one\ntwo"


class LosesAnAnswer(SessionHandle):
    """A connection that breaks when Temporal has taken the message, and before it says so."""

    lost = False

    async def start_run(self, agent: str, input: str, **options: Unpack[RunOptions]) -> StartedRun:
        started = await super().start_run(agent, input, **options)
        if not self.lost:
            self.lost = True
            raise EngineUnavailable("Lost.")
        return started


async def test_a_message_whose_answer_was_lost_is_said_once(engine: Engine) -> None:
    engine.model.script([text("Once.")])
    told: list[str] = []
    async with engine.serving(AGENT):
        session = LosesAnAnswer(engine.client, engine.task_queue, "s-lost")
        turn = Turn(engine.manager, engine.ended, told.append)
        message = Message("Hi.", "assistant", None, Limits())
        assert (await turn.say(session, message, "reject")).output == "Once."
    assert len(engine.model.requests) == 1
    assert told == ["Temporal does not answer; trying again …"]


async def test_a_run_that_tries_again_and_then_waits_for_a_person_is_shown_so(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    again = tool_calls(call("double", {"number": 1}), content="Half done.")
    engine.model.script([text("Half ", "way", " up").hold(gate, 3).cut(4), again, text("Done.")])
    careful = Agent(name="assistant", tools=[double], limits=Limits(max_turns=1), on_limit="pause")
    async with engine.serving(careful), on_terminal("chat", "s-waits", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Go.")
        await chat.shows("Half way")
        gate.open()
        await chat.shows("attempt 2 in")
        await chat.shows("Half done.")
        await chat.shows("perdure limits ")
        run_id = (await chat.shows(" ")).strip()
        await engine.manager.raise_limits(run_id, Limits(max_turns=2))
        await chat.shows("Done.")
        await chat.shows(" tokens · ")
        await chat.shows("\n> ")
        chat.type(CTRL_D)
        assert await chat.ended() == 0


async def test_a_run_that_goes_on_is_followed_first_and_one_that_comes_between_as_well(
    engine: Engine, env: dict[str, str]
) -> None:
    gates = [Gate(timeout_s=60), Gate(timeout_s=60)]
    engine.model.script([text("Other ", "words.").hold(gate, before_chunk=2) for gate in gates])
    engine.model.script([text("Yours.")])
    async with engine.serving(AGENT):
        first = await engine.start("assistant", "Begun elsewhere.", session_id="s-busy")
        await gates[0].reached
        async with on_terminal("chat", "s-busy", env=env) as chat:
            await chat.shows(f"Run {first} is going on")
            await chat.shows("> Begun elsewhere.")
            await chat.shows("Other")
            gates[0].open()
            await chat.shows("words.")
            await chat.shows("\n> ")
            second = await engine.start("assistant", "And again.", session_id="s-busy")
            await gates[1].reached
            chat.say("Mine.")
            await chat.shows("Somebody else is talking")
            await chat.shows(f"Run {second} is going on")
            gates[1].open()
            await chat.shows("words.")
            await chat.shows("> Mine.")  # is not lost: Enter says it
            chat.type("\r")
            await chat.shows("Yours.")
            await chat.shows(" tokens · ")
            await chat.shows("> ")
            chat.type(CTRL_D)
            assert await chat.ended() == 0
    assert engine.model.violations == []
