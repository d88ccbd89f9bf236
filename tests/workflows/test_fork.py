"""Forking: another Run begins where one stood after one of its Steps; the original stays."""

import pytest

from perdure import Agent, Fork, Limits, tool
from perdure.runs.errors import InvalidRequest
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, without_times
from tests.harness.scripted_openai import Gate, call, text, tool_calls


class Ledger(list[int]):
    """Numbers that were looked up."""


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def agents(ledger: Ledger) -> tuple[Agent, Agent]:
    @tool
    def look(number: int) -> int:
        """Look something up."""
        ledger.append(number)
        return number * 10

    return Agent(name="clerk", tools=[look]), Agent(name="boss", instructions="Be brief.")


TURNS = 3


def script(engine: Engine, after: int = 0) -> None:
    """Three turns with two calls each, then an answer: ten Steps."""
    turns = [
        tool_calls(
            call("look", {"number": 2 * n}, f"a{n}"), call("look", {"number": 2 * n + 1}, f"b{n}")
        )
        for n in range(TURNS)
    ]
    engine.model.script([*turns, text("Done.")][after:])


@pytest.mark.parametrize("step", range(10))
async def test_a_fork_executes_what_came_after_its_step_and_nothing_before(
    engine: Engine, agents: tuple[Agent, Agent], ledger: Ledger, step: int
) -> None:
    script(engine)
    async with engine.serving(*agents):
        original = await engine.run("clerk")
        before, asked = without_times(original), len(engine.model.requests)
        script(engine, after=sum(s.kind == "model" for s in original.steps[:step]))
        ledger.clear()
        fork_id = await engine.manager.fork(original.run_id, Fork(step=step))
        fork = await engine.ended(fork_id)
        again = await engine.manager.get_run(original.run_id)
    assert without_times(again) == before
    assert (fork.status, fork.output) == (RunStatus.COMPLETED, "Done.")
    assert (fork.forked_from, fork.copied_steps) == (original.run_id, step)
    assert without_times([s.model_dump(mode="json") for s in fork.steps[:step]]) == (
        without_times([s.model_dump(mode="json") for s in original.steps[:step]])
    )
    executed = [s for s in original.steps if s.number > step]
    assert sorted(ledger) == [
        c_number
        for c_number in range(2 * TURNS)
        if (original.tool_calls[c_number].step or 0) > step
    ]
    assert len(engine.model.requests) - asked == sum(s.kind == "model" for s in executed)
    assert fork.usage.model_calls == sum(s.kind == "model" for s in executed)
    assert fork.usage.tool_calls == len(ledger)
    assert [c.result for c in fork.tool_calls] == [c.result for c in original.tool_calls]


async def test_a_fork_with_a_message_goes_on_with_what_was_said_instead(
    engine: Engine, agents: tuple[Agent, Agent], ledger: Ledger
) -> None:
    script(engine)
    async with engine.serving(*agents):
        original = await engine.run("clerk")
        engine.model.script([text("As you like.")])
        changed = Fork(step=1, message="Forget it.", model="other-model")
        fork = await engine.ended(await engine.manager.fork(original.run_id, changed))
        from_end = Fork(message="And now?", agent="boss", limits=Limits(max_turns=1))
        engine.model.script([text("Nothing.")])
        boss = await engine.ended(await engine.manager.fork(original.run_id, from_end))
    asked = engine.model.requests[-2].body
    assert asked["model"] == "other-model"
    assert [m["role"] for m in asked["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert "cancelled" in asked["messages"][2]["content"]
    assert asked["messages"][-1]["content"] == "Forget it."
    assert (fork.output, len(ledger)) == ("As you like.", 2 * TURNS)
    told = engine.model.requests[-1].body["messages"]
    assert told[0] == {"role": "system", "content": "Be brief."}
    assert [m["content"] for m in told[-2:]] == ["Done.", "And now?"]
    assert (boss.agent, boss.output, boss.usage.model_calls) == ("boss", "Nothing.", 1)


async def test_a_fork_from_before_the_first_step_asks_something_else(
    engine: Engine, agents: tuple[Agent, Agent]
) -> None:
    engine.model.script([text("Hi."), text("Bye.")])
    async with engine.serving(*agents):
        original = await engine.run("clerk", "Hello.")
        changed = Fork(step=0, message="Goodbye.")
        fork = await engine.ended(await engine.manager.fork(original.run_id, changed))
    assert engine.model.requests[-1].body["messages"] == [{"role": "user", "content": "Goodbye."}]
    assert (fork.input_message, fork.output) == ("Goodbye.", "Bye.")


async def test_a_run_that_is_going_on_can_be_forked_from_what_it_has_done(
    engine: Engine, agents: tuple[Agent, Agent]
) -> None:
    gate = Gate()
    engine.model.script(
        [tool_calls(call("look", {"number": 1})), text("Slow.").hold(gate), text("Fast.")]
    )
    async with engine.serving(*agents):
        run_id = await engine.start("clerk")
        await gate.reached
        with pytest.raises(InvalidRequest, match="still executing"):
            await engine.manager.fork(run_id, Fork(step=3))
        fork = await engine.ended(await engine.manager.fork(run_id, Fork(step=2)))
        gate.open()
        original = await engine.ended(run_id)
    assert (fork.output, original.output) == ("Fast.", "Slow.")


async def test_a_fork_that_would_do_nothing_or_from_nowhere_is_refused(
    engine: Engine, agents: tuple[Agent, Agent]
) -> None:
    engine.model.script([text("Hi.")])
    async with engine.serving(*agents):
        run = await engine.run("clerk")
        with pytest.raises(InvalidRequest, match="nothing to do"):
            await engine.manager.fork(run.run_id)
        with pytest.raises(InvalidRequest, match="no Step 7"):
            await engine.manager.fork(run.run_id, Fork(step=7))
