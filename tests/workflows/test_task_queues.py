"""Tools with a task queue of their own, and how many Steps a worker executes at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from perdure import Agent, tool
from perdure.runs.errors import ErrorCode
from perdure.runs.limits import Timeouts
from perdure.runs.status import RunStatus
from perdure.workflows import steps
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls
from tests.mcp.asking import told, using
from tests.mcp.launching import scripted


async def queues(engine: Engine, run_id: str) -> dict[str, str]:
    """Return the task queue of each activity of a Run."""
    (history,) = await engine.executions(run_id)
    scheduled = [e.activity_task_scheduled_event_attributes for e in history.events]
    return {each.activity_type.name: each.task_queue.name for each in scheduled if each.activity_id}


async def test_a_worker_for_everything_serves_the_task_queues_that_its_tools_name(
    engine: Engine,
) -> None:
    own, servers = f"{engine.task_queue}-own", f"{engine.task_queue}-mcp"

    @tool(task_queue=own)
    def render() -> str:
        """Render."""
        return "rendered"

    @tool
    def look() -> str:
        """Look."""
        return "looked"

    agent = Agent(name="a", tools=[render, look], mcp_servers=[scripted("s", task_queue=servers)])
    asked = [call(name, {}, id=name) for name in ("render", "look")]
    listed = call("s__create_issue", {"text": "1"}, id="mcp")
    run = await using(engine, agent, *asked, listed)
    assert run.status is RunStatus.COMPLETED
    assert told(engine) == {"render": "rendered", "look": "looked", "mcp": "create_issue: 1"}
    assert await queues(engine, run.run_id) == {
        "call_model": engine.task_queue,
        "tool.render": own,
        "tool.look": engine.task_queue,
        "tool.s__create_issue": servers,
    }


@tool(task_queue="nobody-polls-this")
def far() -> str:
    """Do something far away."""
    raise AssertionError("nobody is there")


async def without_its_worker(engine: Engine, stack: AsyncExitStack) -> None:
    """Serve everything but the tool's task queue."""
    for role in ("workflows", "activities"):
        engine.settings = engine.settings.model_copy(update={"worker_role": role})
        await stack.enter_async_context(engine.serving(Agent(name="a", tools=[far])))


async def test_the_model_is_told_when_no_worker_takes_a_call(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TAKEN_WITHIN_S", 0.5)
    engine.model.script([tool_calls(call("far", {}, id="A")), text("A pity.")])
    async with AsyncExitStack() as stack:
        await without_its_worker(engine, stack)
        run = await engine.run("a")
    assert run.output == "A pity."
    why = run.tool_calls[0].error
    assert why is not None
    assert why.code is ErrorCode.NO_WORKER, "it never began, so its outcome is known"
    assert "No worker of the task queue 'nobody-polls-this' took the call" in told(engine)["A"]


async def test_a_call_that_no_worker_takes_holds_neither_a_deadline_nor_a_cancel(
    engine: Engine,
) -> None:
    engine.model.respond_with(lambda request: tool_calls(call("far", {})))
    async with AsyncExitStack() as stack:
        await without_its_worker(engine, stack)
        late = await engine.start("a", timeouts=Timeouts(run_s=3))
        unwanted = await engine.start("a")

        async def waits() -> bool:
            waiting = (await engine.manager.get_run(unwanted)).waiting_on
            return waiting is not None and (waiting.type, waiting.detail) == (
                "worker",
                "no worker has taken Step 2 (tool.far) yet",
            )

        await soon(waits)
        await engine.manager.cancel(unwanted)
        assert (await engine.ended(unwanted)).status is RunStatus.CANCELLED
        assert (await engine.ended(late)).status is RunStatus.TIMEOUT


@pytest.mark.parametrize("tuner", ["fixed", "resources"])
async def test_a_worker_executes_no_more_steps_at_once_than_it_may(
    tuner: str, engine: Engine
) -> None:
    running: list[int] = [0]

    @tool(effect="read")
    async def step() -> str:
        """Take a moment."""
        running.append(running[-1] + 1)
        await asyncio.sleep(0.05)
        running.append(running[-1] - 1)
        return "done"

    engine.settings = engine.settings.model_copy(update={"tuner": tuner, "max_steps": 2})
    engine.model.script([tool_calls(*[call("step", {}) for _ in range(8)]), text("Done.")])
    async with engine.serving(Agent(name="a", tools=[step])):
        run = await engine.run("a")
    assert run.status is RunStatus.COMPLETED
    assert len(running) == 17
    assert max(running) <= 2
