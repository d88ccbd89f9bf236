"""Agents that call agents, hand over to one another, and ask people."""

import pytest

from perdure import Agent, ErrorCode, Limits
from perdure.agents.asking import ask_user
from perdure.client.continuing import Fork
from perdure.runs.errors import InvalidRequest
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.workflows.test_approvals import asks

WORKER = Agent(name="worker", instructions="You work.", description="Works.")
BOSS = Agent(
    name="boss",
    instructions="You lead.",
    tools=[WORKER.as_tool(), ask_user],
    handoffs=["worker"],
)


async def children(engine: Engine, run: Run) -> list[Run]:
    ids = [step.child_run_id for step in run.steps if step.child_run_id is not None]
    return [await engine.ended(each) for each in ids]


async def test_an_agent_called_as_a_tool_is_a_run_of_its_own(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("worker", {"input": "Do it."}, id="w")),
            text("Done by me.", usage=(10, 5)),
            text("All done.", usage=(20, 7)),
        ]
    )
    async with engine.serving(BOSS, WORKER):
        run = await engine.run("boss")
        (child,) = await children(engine, run)
    assert run.output == "All done."
    assert (child.agent, child.input_message, child.output) == ("worker", "Do it.", "Done by me.")
    assert (child.parent_run_id, child.depth) == (run.run_id, 1)
    assert run.tool_calls[0].result == "Done by me."
    own = sum(s.usage.total_tokens for s in run.steps if s.usage is not None)
    assert run.total_tokens == own + child.total_tokens
    assert child.total_tokens == 15
    assert run.usage.model_calls == 3


async def test_a_child_that_fails_is_told_to_the_model_with_what_it_cost(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("worker", {"input": "Do it."}, id="w")),
            tool_calls(call("nothing", {}), usage=(10, 5)),
            tool_calls(call("nothing", {}), usage=(10, 5)),
            tool_calls(call("nothing", {}), usage=(10, 5)),
            text("It failed."),
        ]
    )
    async with engine.serving(BOSS, WORKER):
        run = await engine.run("boss")
        (child,) = await children(engine, run)
    assert child.status is RunStatus.FAILED
    assert child.total_tokens == 45
    assert run.status is RunStatus.COMPLETED
    failed = run.tool_calls[0]
    assert failed.error is not None
    assert failed.error.code is ErrorCode.AGENT_FAILED
    assert "model_misbehaving" in (failed.result or "")
    assert run.steps[1].child_usage == child.usage


@pytest.mark.parametrize("who", ["parent", "child", "terminated"])
async def test_cancelling_goes_down_and_its_cost_comes_up(engine: Engine, who: str) -> None:
    gate = Gate()
    engine.model.script(
        [
            tool_calls(call("worker", {"input": "Do it."}, id="w"), usage=(10, 5)),
            tool_calls(call("nothing", {}), usage=(100, 50)),
            text("Never.").hold(gate),
            text("It was cancelled.", usage=(10, 5)),
        ]
    )
    async with engine.serving(BOSS, WORKER):
        run_id = await engine.start("boss")
        await gate.reached
        parent = await engine.manager.get_run(run_id)
        assert parent.waiting_on is not None
        assert parent.waiting_on.type == "child"
        child_id = parent.steps[1].child_run_id or ""
        if who == "parent":
            await engine.manager.cancel(run_id, reason="enough")
        elif who == "child":
            await engine.manager.cancel(child_id, reason="enough")
        else:
            await engine.client.get_workflow_handle(child_id).terminate("enough")
        run = await engine.ended(run_id)
        child = await engine.ended(child_id)
    assert child.status is RunStatus.CANCELLED
    assert run.status is (RunStatus.CANCELLED if who == "parent" else RunStatus.COMPLETED)
    assert run.steps[1].child_usage == child.usage
    assert child.total_tokens >= 150
    assert run.steps[1].status == "cancelled"


async def test_children_of_one_turn_run_side_by_side_and_share_what_is_left(
    engine: Engine,
) -> None:
    gate = Gate()
    engine.model.script(
        [
            tool_calls(
                call("worker", {"input": "One."}, id="a"),
                call("worker", {"input": "Two."}, id="b"),
                usage=(60, 40),
            ),
            text("1", usage=(10, 5)).hold(gate),
            text("2", usage=(10, 5)).hold(gate),
            text("Done.", usage=(10, 5)),
        ]
    )
    async with engine.serving(BOSS, WORKER):
        run_id = await engine.start("boss", limits=Limits(max_tokens=1000))

        async def both() -> bool:
            return len(engine.model.requests) == 3

        await soon(both)
        gate.open()
        run = await engine.ended(run_id)
        found = await children(engine, run)
    assert sorted(child.output or "" for child in found) == ["1", "2"]
    assert [child.budget.max_tokens for child in found] == [450, 450]
    assert run.total_tokens == 145


async def test_a_handoff_goes_on_as_the_other_agent(engine: Engine) -> None:
    engine.model.script(
        [tool_calls(call("handoff_to_worker", {}, id="h")), text("I am the worker.")]
    )
    async with engine.serving(BOSS, WORKER):
        run = await engine.run("boss")
    assert (run.agent, run.output) == ("worker", "I am the worker.")
    sent = engine.model.requests[-1].body["messages"]
    assert sent[0] == {"role": "system", "content": "You work."}
    assert len(run.steps) == 2


async def test_a_question_is_answered_by_a_person(engine: Engine) -> None:
    asked = {"question": "Which one?", "choices": ["red", "blue"]}
    engine.model.script([tool_calls(call("ask_user", asked, id="q")), text("Blue it is.")])
    async with engine.serving(BOSS, WORKER):
        run_id = await engine.start("boss")
        run = await asks(engine, run_id)
        assert run.waiting_on is not None
        assert (run.waiting_on.type, run.waiting_on.detail) == ("input", "Which one?")
        with pytest.raises(InvalidRequest, match="none of the choices"):
            await engine.manager.answer(run_id, "q", "green", by="ann")
        await engine.manager.answer(run_id, "q", "blue", by="ann")
        run = await engine.ended(run_id)
    assert run.tool_calls[0].result == "blue"
    assert run.output == "Blue it is."


async def test_a_fork_from_before_a_handoff_is_the_agent_that_the_run_was_then(
    engine: Engine,
) -> None:
    engine.model.script(
        [
            tool_calls(call("handoff_to_worker", {}, id="h")),
            text("I am the worker."),
            text("I am the boss."),
            text("Still the worker."),
        ]
    )
    async with engine.serving(BOSS, WORKER):
        run = await engine.run("boss", limits=Limits(max_turns=7))
        assert (run.first_agent, run.agent) == ("boss", "worker")
        forked = await engine.manager.fork(run.run_id, Fork(step=0, message="Again."))
        early = await engine.ended(forked)
        forked = await engine.manager.fork(run.run_id, Fork(step=2, message="Again."))
        late = await engine.ended(forked)
    assert (early.agent, early.output) == ("boss", "I am the boss.")
    assert (late.agent, late.output) == ("worker", "Still the worker.")
    assert early.limits.max_turns == late.limits.max_turns == 7
