"""Approvals: gated calls wait, each decision reaches its call, and nothing else opens the gate."""

import asyncio
import json
from typing import Any

import pytest

from perdure import Agent, ErrorCode, Timeouts, tool
from perdure.agents.approval import ProposedCall
from perdure.runs.errors import ActionAlreadyResolved, ActionNotFound, InvalidRequest
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls

DONE: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool(approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    DONE.append(euros)
    return f"paid {euros}"


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


def large(asked: ProposedCall) -> bool | str:
    """Ask for large amounts only."""
    return asked.tool == "spend" and asked.arguments["euros"] > 100 and "More than 100 euros."


@tool(approval=large)
def spend(euros: int) -> str:
    """Spend money."""
    DONE.append(euros)
    return f"spent {euros}"


CLERK = Agent(name="clerk", tools=[pay, look, spend])


async def asks(engine: Engine, run_id: str, count: int = 1) -> Run:
    """Wait until a Run waits for so many decisions."""
    found: list[Run] = []

    async def waits() -> bool:
        run = await engine.manager.get_run(run_id)
        found[:] = [run]
        return run.waiting_on is not None and len(run.waiting_on.action_ids) == count

    await soon(waits)
    return found[0]


def result_of(run: Run, call_id: str) -> str:
    return next(c.result or "" for c in run.tool_calls if c.call_id == call_id)


async def test_appr_01_each_decision_reaches_its_own_call(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(
                call("pay", {"euros": 1}, id="A"),
                call("look", {"what": "x"}, id="L"),
                call("pay", {"euros": 2}, id="B"),
                call("pay", {"euros": 3}, id="C"),
            ),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        run = await asks(engine, run_id, 3)
        assert run.waiting_on is not None
        assert run.waiting_on.type == "approval"
        queried = await engine.queried(run_id)
        assert queried.waiting_on is not None
        assert queried.waiting_on.action_ids == run.waiting_on.action_ids
        await engine.manager.approve(run_id, "C", by="ann")
        await engine.manager.reject(run_id, "A", by="bob", note="too much")
        await engine.manager.approve(run_id, "B", by="ann", arguments={"euros": 7})
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert sorted(DONE) == [3, 7]
    assert "too much" in result_of(run, "A")
    assert result_of(run, "B") == '[A person changed the arguments to {"euros": 7}]\npaid 7'
    assert [c.call_id for c in run.tool_calls] == ["A", "L", "B", "C"]
    rejected = run.tool_calls[0]
    assert rejected.error is not None
    assert rejected.error.code is ErrorCode.ACTION_REJECTED
    assert rejected.action is not None
    assert rejected.action.resolution is not None
    assert rejected.action.resolution.by == "bob"


async def test_secu_07_another_call_asks_again(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("spend", {"euros": 50}, id="s1")),
            tool_calls(call("spend", {"euros": 500}, id="s1")),
            tool_calls(call("spend", {"euros": 501}, id="s1")),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        run = await asks(engine, run_id)
        assert DONE == [50]
        first = run.tool_calls[-1].action
        assert first is not None
        assert first.reason == "More than 100 euros."
        await engine.manager.approve(run_id, "s1", by="ann")

        async def asks_again() -> bool:
            run = await engine.manager.get_run(run_id)
            return run.waiting_on is not None and run.waiting_on.action_ids == ("action_2",)

        await soon(asks_again)
        assert DONE == [50, 500]
        await engine.manager.reject(run_id, "s1", by="ann")
        run = await engine.ended(run_id)
    assert DONE == [50, 500]
    assert run.output == "Done."


async def test_a_decision_is_taken_once(engine: Engine) -> None:
    engine.model.script([tool_calls(call("pay", {"euros": 1}, id="A")), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        manager = engine.manager
        with pytest.raises(ActionNotFound, match="open: action_1"):
            await manager.approve(run_id, "B", by="ann")
        with pytest.raises(InvalidRequest, match="name of whoever"):
            await manager.approve(run_id, "A", by=" ")
        with pytest.raises(InvalidRequest, match="is an approval"):
            await manager.answer(run_id, "A", "yes", by="ann")
        await asyncio.gather(*[manager.approve(run_id, "A", by="ann") for _ in range(3)])
        with pytest.raises(ActionAlreadyResolved, match="approved by ann"):
            await manager.reject(run_id, "A", by="bob")
        run = await engine.ended(run_id)
        await manager.approve(run_id, "A", by="ann")
    assert DONE == [1]
    assert run.tool_calls[0].action is not None


async def test_an_approval_that_nobody_gives_expires_as_a_no(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("pay", {"euros": 1}, id="A"), call("pay", {"euros": 2}, id="B")),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk", timeouts=Timeouts(action_s=5))
        await asks(engine, run_id, 2)
        await engine.manager.approve(run_id, "B", by="ann")
        run = await engine.ended(run_id)
    assert DONE == [2]
    assert json.loads(result_of(run, "A"))["error"]["code"] == "action_expired"
    assert run.output == "Done."


async def test_cancelling_resolves_what_is_open(engine: Engine) -> None:
    engine.model.script([tool_calls(call("pay", {"euros": 1}, id="A"))])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        await engine.manager.cancel(run_id, reason="no more")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert DONE == []
    action = run.tool_calls[0].action
    assert action is not None
    assert action.resolution is not None
    assert action.resolution.verdict == "cancelled"


async def test_a_paused_run_takes_decisions_and_acts_on_them_when_it_goes_on(
    engine: Engine,
) -> None:
    engine.model.script(
        [
            tool_calls(call("pay", {"euros": 1}, id="A"), call("pay", {"euros": 2}, id="B")),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id, 2)
        await engine.manager.pause(run_id, "wait")
        await engine.manager.approve(run_id, "A", by="ann")
        run = await engine.manager.unpause(run_id)
        await asks(engine, run_id, 1)
        await engine.manager.approve(run_id, "B", by="ann")
        run = await engine.ended(run_id)
    assert sorted(DONE) == [1, 2]
    assert run.output == "Done."


async def test_actions_are_listed_until_they_are_decided(engine: Engine) -> None:
    engine.model.script([tool_calls(call("pay", {"euros": 1}, id="A")), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)

        async def listed() -> bool:
            found = await engine.manager.list_actions()
            return run_id in [each.run_id for each in found.actions]

        await soon(listed)
        await engine.manager.approve(run_id, "A", by="ann")
        await engine.ended(run_id)
        assert not await listed()
