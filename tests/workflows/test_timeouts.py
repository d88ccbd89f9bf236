"""Timeouts: each ends what it limits with a code of its own, set on the agent or on the Run."""

import asyncio

import pytest

from perdure import Agent, ErrorCode, RetryRule, Timeouts, tool
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, Reply, call, text, tool_calls

ONCE = {ErrorCode.LLM_TIMEOUT: RetryRule(max_attempts=1)}


@tool(effect="read")
async def stare() -> str:
    """Look for ever."""
    await asyncio.Event().wait()
    return ""


@tool(effect="read", timeout_s=0.5)
async def glance() -> str:
    """Look for ever, though half a second was meant."""
    await asyncio.Event().wait()
    return ""


@tool
async def pay() -> str:
    """Pay for ever."""
    await asyncio.Event().wait()
    return ""


SILENT = text("never").hold(Gate())
STALLED = text("Half ", "an answer").hold(Gate(), before_chunk=2)
DRIPPING = text(*["."] * 100).delayed(0.3)
MODEL: list[tuple[Timeouts, Reply, str]] = [
    (Timeouts(model_first_byte_s=0.5), SILENT, "answer at all"),
    (Timeouts(model_idle_s=0.5), STALLED, "go on"),
    (Timeouts(model_s=1), DRIPPING, "answer completely"),
]


@pytest.mark.parametrize("on_agent", [True, False])
@pytest.mark.parametrize(("timeouts", "reply", "words"), MODEL)
async def test_a_model_that_takes_too_long_is_given_up(
    engine: Engine, timeouts: Timeouts, reply: Reply, words: str, on_agent: bool
) -> None:
    own, given = (timeouts, None) if on_agent else (Timeouts(model_s=60), timeouts)
    engine.model.script([reply])
    async with engine.serving(Agent(name="clerk", timeouts=own, retries=ONCE)):
        run = await engine.run("clerk", timeouts=given)
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.FAILED, ErrorCode.LLM_TIMEOUT)
    assert words in run.error.message
    assert run.usage.complete is False


@pytest.mark.parametrize(
    ("name", "on_agent", "on_run", "code"),
    [
        ("stare", Timeouts(tool_s=0.5), None, ErrorCode.TOOL_TIMEOUT),
        ("stare", Timeouts(tool_s=60), Timeouts(tool_s=0.5), ErrorCode.TOOL_TIMEOUT),
        ("glance", Timeouts(tool_s=60), None, ErrorCode.TOOL_TIMEOUT),
        ("pay", Timeouts(tool_s=0.5), None, ErrorCode.OUTCOME_UNKNOWN),
    ],
)
async def test_a_tool_that_takes_too_long_is_given_up_and_the_model_told(
    engine: Engine, name: str, on_agent: Timeouts, on_run: Timeouts | None, code: ErrorCode
) -> None:
    engine.model.script([tool_calls(call(name, {})), text("So be it.")])
    agent = Agent(name="clerk", tools=[stare, glance, pay], timeouts=on_agent)
    async with engine.serving(agent):
        run = await engine.run("clerk", timeouts=on_run)
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is code
    assert "0.5 s" in run.tool_calls[0].error.message


async def test_an_agent_s_time_for_a_run_counts_from_the_run_s_start(engine: Engine) -> None:
    engine.model.script([tool_calls(call("stare", {}))])
    agent = Agent(name="clerk", tools=[stare], timeouts=Timeouts(run_s=3))
    async with engine.serving(agent):
        run = await engine.run("clerk")
    assert run.error is not None
    assert (run.status, run.error.code) == (RunStatus.TIMEOUT, ErrorCode.RUN_TIMEOUT)
    assert run.tool_calls[0].status == "cancelled"
    assert run.timeouts.run_s == 3
