"""Cancelling at awkward moments: what is kept, what never starts, what is always settled."""

import asyncio
import threading
from random import Random

import pytest

from perdure import Agent, tool
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, tool_calls


class Doors:
    """Tools that wait, and the event that says how many are waiting."""

    def __init__(self) -> None:
        self.waiting = 0
        self.entered = asyncio.Condition()
        self.thread_entered = threading.Event()
        self.thread_may_go = threading.Event()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self.entered:
            await self.entered.wait_for(lambda: self.waiting >= count)


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
def agent(doors: Doors) -> Agent:
    @tool(effect="read")
    def quick(number: int) -> int:
        """Return at once."""
        return number

    @tool
    async def slow(number: int) -> int:
        """Wait for ever."""
        async with doors.entered:
            doors.waiting += 1
            doors.entered.notify_all()
        await asyncio.Event().wait()
        return number

    @tool
    def blocking(number: int) -> int:
        """Block a thread until it is let go."""
        doors.thread_entered.set()
        doors.thread_may_go.wait(30)
        return number

    return Agent(name="worker-bee", tools=[quick, slow, blocking])


async def test_a_cancel_among_parallel_tools_keeps_results_and_settles_the_rest(
    engine: Engine, agent: Agent, doors: Doors
) -> None:
    engine.model.script(
        [tool_calls(call("quick", {"number": 1}), *[call("slow", {"number": n}) for n in (2, 3)])]
    )
    async with engine.serving(agent):
        run_id = await engine.start("worker-bee")
        await doors.until(2)
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert [c.status for c in run.tool_calls] == ["completed", "cancelled", "cancelled"]
    assert run.tool_calls[0].result == "1"
    assert all(c.result for c in run.tool_calls)
    assert len(engine.model.requests) == 1


async def test_a_tool_that_blocks_its_thread_does_not_hold_up_a_cancel(
    engine: Engine, agent: Agent, doors: Doors
) -> None:
    engine.model.script([tool_calls(call("blocking", {"number": 1}))])
    async with engine.serving(agent):
        run_id = await engine.start("worker-bee")
        await asyncio.to_thread(doors.thread_entered.wait, 20)
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
        doors.thread_may_go.set()
    assert run.status is RunStatus.CANCELLED
    assert run.tool_calls[0].status == "cancelled"


@pytest.mark.parametrize("seed", range(12))
async def test_a_cancel_at_any_moment_ends_the_run_and_nothing_starts_after_it(
    engine: Engine, agent: Agent, seed: int
) -> None:
    """The fixture compares projection and query, whatever the order things arrived in."""
    random = Random(seed)  # noqa: S311 - a moment, no secret
    engine.model.respond_with(lambda request: tool_calls(call("quick", {"number": 1})))
    async with engine.serving(agent):
        run_id = await engine.start("worker-bee")
        await engine.model.wait_for_requests(random.randint(1, 4), timeout_s=20)
        await asyncio.sleep(random.random() * 0.15)
        if seed % 2:
            await engine.manager.cancel(run_id, "enough")
        else:
            await engine.client.get_workflow_handle(run_id).signal("cancel", {"reason": "enough"})
        run = await engine.ended(run_id)
        events = [event async for event in engine.manager.events(run_id)]
    assert run.status is RunStatus.CANCELLED
    types = [event.type for event in events]
    assert "run.step.started" not in types[types.index("run.cancel_requested") :]
    assert run.cancel is not None
    assert run.cancel.reason == "enough"
