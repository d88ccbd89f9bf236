"""Limits: each met within one Step; what is then done is the caller's choice."""

import asyncio

import pytest

from perdure import Agent, Limits, RunFilter, Timeouts, tool
from perdure.runs.errors import ErrorCode, InvalidRequest, RunAlreadyTerminal
from perdure.runs.status import RunStatus, StopReason
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Reply, call, status, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="clerk", tools=[look])
USAGE = (90, 10)


def looking(number: int) -> Reply:
    return tool_calls(call("look", {"number": number}), usage=USAGE)


LIMITS = [
    (Limits(max_turns=2), "max_turns", 2, 2),
    (Limits(max_tool_calls=1), "max_tool_calls", 2, 1),
    (Limits(max_identical_calls=2), "max_identical_calls", 2, 2),
    (Limits(max_tokens=150), "max_tokens", 2, 1),
    (Limits(max_cost=0.00001), "max_cost", 1, 0),
]


@pytest.mark.parametrize(("limits", "code", "models", "tools"), LIMITS)
async def test_a_limit_stops_a_run_within_a_step(
    engine: Engine, limits: Limits, code: str, models: int, tools: int
) -> None:
    engine.model.respond_with(lambda request: looking(1))
    async with engine.serving(AGENT):
        run = await engine.run("clerk", limits=limits)
    assert run.error is not None
    assert (run.status, run.error.code, run.stop_reason) == (RunStatus.FAILED, code, code)
    kinds = [step.kind for step in run.steps]
    assert (kinds.count("model"), kinds.count("tool")) == (models, tools)


@pytest.mark.parametrize(("limits", "code", "models", "tools"), LIMITS)
async def test_a_run_that_finalizes_concludes_without_tools(
    engine: Engine, limits: Limits, code: str, models: int, tools: int
) -> None:
    engine.model.script([looking(1)] * models + [text("As far as I got.")])
    async with engine.serving(AGENT):
        run = await engine.run("clerk", limits=limits, on_limit="finalize")
    assert (run.status, run.stop_reason) == (RunStatus.COMPLETED, code)
    assert run.output == "As far as I got."
    assert [s.purpose for s in run.steps if s.kind == "model"] == ["turn"] * models + ["conclude"]
    assert sum(s.kind == "tool" for s in run.steps) == tools
    last = engine.model.requests[-1].body
    assert "tools" not in last
    assert "limit of this task is reached" in last["messages"][-1]["content"]


async def test_a_model_that_does_not_conclude_fails_with_the_limit(engine: Engine) -> None:
    engine.model.script([looking(1), status(400)])
    async with engine.serving(AGENT):
        run = await engine.run("clerk", limits=Limits(max_turns=1), on_limit="finalize")
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.FAILED, ErrorCode.MAX_TURNS)


async def test_an_agent_s_choice_holds_where_the_run_makes_none(engine: Engine) -> None:
    careful = Agent(name="careful", tools=[look], limits=Limits(max_turns=1), on_limit="finalize")
    engine.model.script([looking(1), text("So far."), looking(1)])
    async with engine.serving(careful):
        concluded = await engine.run("careful")
        stopped = await engine.run("careful", on_limit="stop")
    assert (concluded.status, stopped.status) == ("completed", "failed")


@pytest.mark.parametrize(("limits", "code", "models", "tools"), LIMITS)
async def test_a_paused_run_waits_for_a_person_and_goes_on(
    engine: Engine, limits: Limits, code: str, models: int, tools: int
) -> None:
    engine.model.script([looking(1)] * models + [text("Done.")])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk", limits=limits, on_limit="pause")

        async def paused() -> bool:
            now = await engine.manager.get_run(run_id)
            return now.waiting_on is not None and now.waiting_on.type == "limit"

        await soon(paused)
        assert (await engine.queried(run_id)).waiting_on is not None
        with pytest.raises(InvalidRequest, match="not enough"):
            await engine.manager.raise_limits(run_id, limits)

        async def listed() -> bool:
            found = await engine.manager.list_runs(RunFilter(waiting=True))
            return [r.waiting_on for r in found.runs if r.run_id == run_id] == ["limit"]

        await soon(listed)
        plenty = {name: value * 10 for name, value in limits.model_dump(exclude_none=True).items()}
        await engine.manager.raise_limits(run_id, Limits(**plenty))
        run = await engine.ended(run_id)
        events = [event.type async for event in engine.manager.events(run_id)]
        with pytest.raises(RunAlreadyTerminal):
            await engine.manager.raise_limits(run_id, limits)
    assert (run.status, run.output, run.waiting_on) == ("completed", "Done.", None)
    at = events.index("run.paused")
    assert events[at : at + 3] == ["run.paused", "run.limits.raised", "run.unpaused"]


async def test_a_paused_run_can_be_cancelled_and_can_run_out_of_time(engine: Engine) -> None:
    engine.model.respond_with(lambda request: looking(1))
    options = {"limits": Limits(max_turns=1), "on_limit": "pause"}
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk", **options)

        async def paused() -> bool:
            return (await engine.manager.get_run(run_id)).waiting_on is not None

        await soon(paused)
        await engine.manager.cancel(run_id)
        cancelled = await engine.ended(run_id)
        late = await engine.run("clerk", timeouts=Timeouts(run_s=1), **options)
    assert cancelled.status is RunStatus.CANCELLED
    assert late.status is RunStatus.TIMEOUT


async def test_limits_can_be_raised_while_a_run_is_going_on(engine: Engine) -> None:
    release = asyncio.Event()

    @tool(effect="read")
    async def wait(number: int) -> int:
        """Wait."""
        await release.wait()
        return number

    engine.model.script([tool_calls(call("wait", {"number": 1})), text("Done.")])
    async with engine.serving(Agent(name="waiter", tools=[wait])):
        run_id = await engine.start("waiter", limits=Limits(max_turns=1))
        await engine.model.wait_for_requests(1)
        await engine.manager.raise_limits(run_id, Limits(max_turns=2))
        release.set()
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED


async def test_an_answer_that_is_too_long_is_stopped_and_kept(engine: Engine) -> None:
    engine.model.script([text(*["word "] * 50).hang(40)])
    async with engine.serving(AGENT):
        run = await engine.run("clerk", limits=Limits(max_output_bytes=60))
    assert run.error is not None
    assert (run.error.code, run.stop_reason) == (ErrorCode.MAX_OUTPUT, StopReason.MAX_OUTPUT)
    assert (run.steps[0].text or "").startswith("word word")
    assert run.usage.complete is False


async def test_a_poll_whose_result_changes_is_no_circle(engine: Engine) -> None:
    seen = iter(range(100))

    @tool(effect="read")
    def poll() -> int:
        """Look how far it is."""
        return next(seen)

    engine.model.script([tool_calls(call("poll", {}))] * 5 + [text("Done.")])
    async with engine.serving(Agent(name="poller", tools=[poll])):
        run = await engine.run("poller", limits=Limits(max_identical_calls=2))
    assert run.status is RunStatus.COMPLETED
