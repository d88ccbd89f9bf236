"""Sync tools that never end, whatever is done to their Runs, take no slot from others."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from perdure import Agent, ToolContext, tool
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import RecordedRequest, Reply, call, text, tool_calls

AT_ONCE, ROUNDS = 70, 3
"""More at once than any usual pool of threads has, and in all more than a worker has slots."""


class Stuck:
    """Tools that block until the test is over, and how many of them do."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.entered: list[ToolContext] = []

    def agent(self) -> Agent:
        """Return one that has them, and one that is well."""

        @tool(effect="read")
        def hang(number: int, context: ToolContext) -> None:
            """Block, and look at nothing."""
            self.entered.append(context)
            self.over.wait()

        @tool(timeout_s=0.5)
        def linger(number: int, context: ToolContext) -> None:
            """Block for longer than is allowed."""
            self.entered.append(context)
            self.over.wait()

        @tool
        def leave(number: int) -> None:
            """Leave."""
            raise SystemExit(number)

        @tool(effect="read")
        def well() -> str:
            """Be well."""
            return threading.current_thread().name

        return Agent(name="bee", tools=[hang, linger, leave, well])


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """However a test ends, its threads do."""
    tools = Stuck()
    yield tools
    tools.over.set()


def asked(request: RecordedRequest) -> Reply:
    """Call the tool that the input names, so many times; then end."""
    name, count = str(request.messages[-1]["content"]).split(" ")[:2]
    if request.messages[-1]["role"] == "tool":
        return text("Done.")
    numbered = [{"number": n} for n in range(int(count))]
    return tool_calls(*[call(name, {} if name == "well" else each) for each in numbered])


async def test_a_worker_serves_on_after_210_stuck_tools_were_cancelled(
    engine: Engine, stuck: Stuck
) -> None:
    engine.model.respond_with(asked)
    async with engine.serving(stuck.agent()):
        for done in range(1, ROUNDS + 1):
            run_id = await engine.start("bee", f"hang {AT_ONCE} times")

            async def all_hang(count: int = done * AT_ONCE) -> bool:
                return len(stuck.entered) == count

            await soon(all_hang)
            await engine.manager.cancel(run_id)
            assert (await engine.manager.wait(run_id)).status is RunStatus.CANCELLED
        assert all(context.cancelled for context in stuck.entered)
        left = await engine.run("bee", "leave 20 times")
        well = await engine.run("bee", "well 20 times")
    assert [c.error.code for c in left.tool_calls if c.error] == ["tool_failed"] * 20
    assert well.status is RunStatus.COMPLETED
    assert [c.result for c in well.tool_calls] == ["tool well"] * 20


async def test_a_tool_whose_time_is_over_is_told_and_left_behind(
    engine: Engine, stuck: Stuck
) -> None:
    engine.model.respond_with(asked)
    async with engine.serving(stuck.agent()):
        run = await engine.run("bee", "linger 1 time")
        assert await asyncio.to_thread(stuck.entered[0].wait_cancelled, 20)
        step = run.steps[1]
    assert [c.error.code for c in run.tool_calls if c.error] == ["outcome_unknown"]
    assert step.started_at is not None
    assert step.completed_at is not None
    assert step.started_at < stuck.entered[0].deadline <= step.completed_at
