"""Fallback models: what the Run goes on with when one model's retries are spent."""

import pytest

from perdure import Agent, ErrorCode, RetryRule, tool
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Reply, call, status, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(
    name="clerk",
    tools=[look],
    model="first",
    fallback_models=["second", "third"],
    retries={ErrorCode.LLM_UNAVAILABLE: RetryRule(max_attempts=2)},
)
BUSY = status(503, headers={"retry-after-ms": "1"})


def asked(engine: Engine) -> list[str]:
    return [request.body["model"] for request in engine.model.requests]


async def test_the_next_model_takes_over_and_keeps_the_run(engine: Engine) -> None:
    engine.model.script([BUSY, BUSY, tool_calls(call("look", {"number": 1})), text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("clerk")
    assert asked(engine) == ["first", "first", "second", "second"]
    assert (run.status, run.model, run.turn) == (RunStatus.COMPLETED, "second", 2)
    assert [(s.status, s.turn) for s in run.steps if s.kind == "model"] == [
        ("failed", 1),
        ("completed", 1),
        ("completed", 2),
    ]


async def test_when_all_are_spent_the_run_fails_with_the_last_error(engine: Engine) -> None:
    engine.model.respond_with(lambda request: BUSY)
    async with engine.serving(AGENT):
        run = await engine.run("clerk")
    assert asked(engine) == ["first"] * 2 + ["second"] * 2 + ["third"] * 2
    assert run.error is not None
    assert (run.status, run.error.code, run.error.retryable) == ("failed", "llm_unavailable", True)


@pytest.mark.parametrize(
    "refusal", [status(401), status(400), text(finish_reason="content_filter")]
)
async def test_no_other_model_is_asked_what_would_be_refused_as_well(
    engine: Engine, refusal: Reply
) -> None:
    engine.model.script([refusal])
    async with engine.serving(AGENT):
        run = await engine.run("clerk")
    assert (run.status, asked(engine)) == ("failed", ["first"])


async def test_a_model_chosen_for_the_run_falls_back_to_nothing(engine: Engine) -> None:
    engine.model.respond_with(lambda request: BUSY)
    async with engine.serving(AGENT):
        run = await engine.run("clerk", model="chosen")
    assert (run.status, asked(engine)) == ("failed", ["chosen"] * 2)
