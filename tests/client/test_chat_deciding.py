"""Approvals and questions inside `perdure chat`: on a real terminal, and through a pipe."""

import asyncio

import pytest

from perdure import Agent, ask_user, tool
from tests.harness.engine import Engine
from tests.harness.processes import perdure
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.harness.terminal import CTRL_D, on_terminal
from tests.workflows.test_approvals import asks

PAID: list[int] = []


@tool(approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    PAID.append(euros)
    return f"paid {euros}"


CLERK = Agent(name="clerk", tools=[pay, ask_user])
BOSS = Agent(name="boss", tools=[CLERK.as_tool()], handoffs=["clerk"])
APPROVE = ": approve? "


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


async def test_a_person_decides_in_the_conversation(engine: Engine, env: dict[str, str]) -> None:
    choices = {"question": "Which?", "choices": ["red", "blue"]}
    gate = Gate(timeout_s=60)
    engine.model.script(
        [
            tool_calls(*[call("pay", {"euros": n}, id=f"p{n}") for n in (1, 2, 3)]).hold(gate),
            tool_calls(call("ask_user", choices, id="q")),
            tool_calls(call("ask_user", {"question": "Why?"}, id="w")),
            tool_calls(call("handoff_to_clerk", {}, id="h")),
            text("All done."),
        ]
    )
    both = Agent(name="both", tools=[pay, ask_user], handoffs=["clerk"])
    async with engine.serving(both, CLERK), on_terminal("chat", "--agent", "both", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Pay.")
        await gate.reached
        chat.say("y")  # before anybody was asked anything: it decides nothing
        gate.open()
        await chat.shows("  → perdure approve ")
        await chat.shows("action_1" + APPROVE)
        chat.say("y, but not so much")
        await chat.shows("y approves, n or n NOTE rejects, e edits the arguments")
        await chat.shows("action_1" + APPROVE)
        assert PAID == []
        chat.say("y")
        await chat.shows("action_1: approved by ")
        await chat.shows("action_2" + APPROVE)
        chat.say("n too much")
        await chat.shows("action_2: rejected by ")
        await chat.shows("action_3" + APPROVE)
        chat.say("e")
        await chat.shows('arguments> {"euros": 3}')
        chat.type("\x7f" * len("3}"))
        chat.say("30}")
        await chat.shows('with {"euros": 30}')
        await chat.shows("1. ")
        await chat.shows("action_4: answer> ")
        chat.say("green")
        await chat.shows("One of the choices, or its number")
        await chat.shows("action_4: answer> ")
        chat.say("2")
        await chat.shows(": blue")
        await chat.shows("action_5: answer> ")
        chat.say("/reject none of your business")
        await chat.shows("action_5: rejected by ")
        await chat.shows("The agent clerk goes on.")
        await chat.shows("All done.")
        await chat.shows("\n> ")
        chat.type(CTRL_D)
        assert await chat.ended() == 0
    assert sorted(PAID) == [1, 30]
    assert engine.model.violations == []


async def test_who_leaves_is_asked_again_later_and_ctrl_c_cancels(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script(
        [
            tool_calls(call("clerk", {"input": "Pay."}, id="c")),
            tool_calls(*[call("pay", {"euros": n}, id=f"p{n}") for n in (1, 2, 3)]),
            tool_calls(call("pay", {"euros": 4}, id="p4")),
        ]
    )
    session = f"s-{engine.task_queue}"
    async with engine.serving(BOSS, CLERK):
        async with on_terminal("chat", session, "--agent", "boss", env=env) as chat:
            await chat.shows("\n> ")
            chat.say("Pay.")
            shown = await chat.shows("action_1" + APPROVE)
            child_id = shown.split("perdure approve ")[1].split()[0]
            chat.type(CTRL_D)
            await chat.shows(f"perdure chat {session}")
            assert await chat.ended() == 0
        await engine.manager.approve(child_id, "action_1", by="ann")
        async with on_terminal("chat", session, env=env) as chat:
            await chat.shows("action_2" + APPROVE)  # of the Run below; the other one is decided
            await engine.manager.reject(child_id, "action_3", by="ann")  # while one thinks here
            chat.say("y")
            await chat.shows(f"action_2 of Run {child_id} is decided.")
            await chat.shows("action_4" + APPROVE)
            assert "action_3" + APPROVE not in chat.shown
            await chat.interrupt_prompt("Cancelled. What was said is kept.")
            await chat.shows("\n> ")
            chat.type(CTRL_D)
            assert await chat.ended() == 0
        child = await engine.ended(child_id)
    assert child.status == "cancelled"
    assert sorted(PAID) == [1, 2]


async def test_a_pipe_says_what_waits_and_waits(engine: Engine, env: dict[str, str]) -> None:
    engine.model.script([tool_calls(call("pay", {"euros": 1}, id="p")), text("Paid.")])
    async with (
        engine.serving(CLERK),
        perdure("chat", "--agent", "clerk", env=env, stdin=asyncio.subprocess.PIPE) as chat,
    ):
        assert chat.stdin is not None
        assert chat.stderr is not None
        chat.stdin.write(b"Pay.\n")
        chat.stdin.close()
        told = ""
        async with asyncio.timeout(60):
            while "perdure approve" not in told:
                told = (await chat.stderr.readline()).decode()
        run_id, action_id = told.split()[-2:]
        await asks(engine, run_id)
        await engine.manager.approve(run_id, action_id, by="ann")
        out, _ = await chat.communicate()
        assert (chat.returncode, out.decode()) == (0, "Paid.\n")
    assert PAID == [1]
