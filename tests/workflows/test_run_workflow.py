"""Runs on the real dev server: the loop, its ends, and what is kept."""

import pytest

from perdure import Agent, Limits, Timeouts, tool
from perdure.activities.transcripts import Transcripts
from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus, StopReason
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
async def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


AGENT = Agent(name="adder", instructions="Add.", tools=[add, fail])


async def test_a_run_calls_tools_and_answers_from_their_results(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4})),
            text("3 and 7"),
        ]
    )
    async with engine.serving(AGENT):
        run = await engine.run("adder", "Add 1 2 and 3 4.")
    assert run.status is RunStatus.COMPLETED
    assert run.stop_reason is StopReason.END_TURN
    assert run.output == "3 and 7"
    assert [(s.number, s.kind, s.turn, s.status) for s in run.steps] == [
        (1, "model", 1, "completed"),
        (2, "tool", 1, "completed"),
        (3, "tool", 1, "completed"),
        (4, "model", 2, "completed"),
    ]
    assert [c.result for c in run.tool_calls] == ["3", "7"]
    told = engine.model.requests[1].messages
    assert [m["role"] for m in told] == ["system", "user", "assistant", "tool", "tool"]
    assert [m["content"] for m in told[-2:]] == ["3", "7"]


async def test_totals_equal_what_the_provider_reported(engine: Engine) -> None:
    engine.model.script(
        [
            tool_calls(call("add", {"a": 1, "b": 2}), usage=(100, 20, 30, 5)),
            text("3", usage=(140, 4)),
        ]
    )
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    reported = engine.model.reported_usage
    assert (run.usage.input_tokens, run.usage.output_tokens) == (240, 24)
    assert (reported.prompt, reported.completion) == (240, 24)
    assert run.usage.input_tokens_details.cached_tokens == 30
    assert run.usage.output_tokens_details.reasoning_tokens == 5
    assert (run.usage.model_calls, run.usage.tool_calls) == (2, 1)
    assert run.usage.complete


@pytest.mark.parametrize(
    ("remembered", "misses"),
    [
        (Transcripts(), 0),
        (Transcripts(result_bytes=0), 2),
        (Transcripts(max_bytes=0), 2),
        (Transcripts(max_bytes=0, result_bytes=0), 2),
    ],
    ids=["all", "no results", "no transcripts", "nothing"],
)
async def test_a_worker_that_remembers_nothing_reads_the_transcript_from_the_run(
    engine: Engine, remembered: Transcripts, misses: int
) -> None:
    big = call("fail", {"reason": "long " * 200})
    engine.model.script([tool_calls(big), tool_calls(big, call("nothing", {})), text("Done.")])
    engine.transcripts = remembered
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.status is RunStatus.COMPLETED
    assert remembered.misses == misses
    first, second, third = (request.messages for request in engine.model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert [m["role"] for m in third[2:]] == ["assistant", "tool", "assistant", "tool", "tool"]


async def test_a_tool_that_raises_is_told_to_the_model_and_not_retried(engine: Engine) -> None:
    engine.model.script([tool_calls(call("fail", {"reason": "no luck"})), text("It failed.")])
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].status == "failed"
    assert "no luck" in engine.model.requests[1].messages[-1]["content"]


async def test_unknown_tools_and_bad_arguments_are_told_and_nothing_is_executed(
    engine: Engine,
) -> None:
    engine.model.script(
        [
            tool_calls(call("subtract", {"a": 1}), call("add", '{"a": 1'), call("add", {"a": "x"})),
            text("Sorry."),
        ]
    )
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.status is RunStatus.COMPLETED
    assert [c.status for c in run.tool_calls] == ["rejected"] * 3
    assert [c.error.code for c in run.tool_calls if c.error] == [
        ErrorCode.TOOL_NOT_FOUND,
        ErrorCode.TOOL_ARGUMENTS_INVALID,
        ErrorCode.TOOL_ARGUMENTS_INVALID,
    ]
    assert [s.kind for s in run.steps] == ["model", "model"]


async def test_a_model_that_only_misbehaves_ends_the_run(engine: Engine) -> None:
    engine.model.respond_with(lambda request: tool_calls(call("nothing", {})))
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.MODEL_MISBEHAVING
    assert len(engine.model.requests) == 3


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (status(401, body={"error": {"message": "bad key"}}), ErrorCode.LLM_AUTH),
        (status(404, body={"error": {"code": "model_not_found"}}), ErrorCode.MODEL_NOT_FOUND),
        (status(400, body={"error": {"message": "no"}}), ErrorCode.PROVIDER_REFUSED_REQUEST),
        (status(429, body={"error": {"code": "insufficient_quota"}}), ErrorCode.QUOTA_EXHAUSTED),
    ],
)
async def test_what_a_retry_can_not_mend_ends_the_run_after_one_request(
    engine: Engine, reply: object, code: ErrorCode
) -> None:
    engine.model.script([reply])
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is code
    assert len(engine.model.requests) == 1


async def test_a_passing_error_is_retried_by_temporal_alone(engine: Engine) -> None:
    engine.model.script([status(503), text("Here.")])
    async with engine.serving(AGENT):
        run = await engine.run("adder")
    assert run.output == "Here."
    assert run.steps[0].attempt == 2
    assert len(engine.model.requests) == 2


async def test_an_unknown_agent_ends_the_run_with_the_names_there_are(engine: Engine) -> None:
    async with engine.serving(AGENT):
        run = await engine.run("nobody")
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.AGENT_NOT_FOUND
    assert "adder" in run.error.message


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_turns=2), ErrorCode.MAX_TURNS),
        (Limits(max_tool_calls=2), ErrorCode.MAX_TOOL_CALLS),
        (Limits(max_tokens=150), ErrorCode.MAX_TOKENS),
        (Limits(max_cost=0.00001), ErrorCode.MAX_COST),
    ],
)
async def test_a_limit_ends_the_run_and_keeps_what_was_done(
    engine: Engine, limits: Limits, code: ErrorCode
) -> None:
    engine.model.respond_with(
        lambda request: tool_calls(call("add", {"a": 1, "b": 1}), usage=(90, 10))
    )
    async with engine.serving(AGENT):
        run = await engine.run("adder", limits=limits)
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is code
    assert run.stop_reason is not None
    assert run.stop_reason.value == code.value
    assert run.steps[0].status == "completed"
    assert all(c.result == "2" for c in run.tool_calls if c.status == "completed")


async def test_a_cancel_closes_the_connection_and_keeps_the_partial_text(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run_id = await engine.start("adder")
        await gate.reached
        await engine.manager.cancel(run_id, "changed my mind")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert run.stop_reason is StopReason.USER_CANCEL
    assert run.cancel is not None
    assert run.cancel.reason == "changed my mind"
    assert (run.steps[0].status, run.steps[0].text) == ("cancelled", "Half ")
    assert not run.usage.complete
    await engine.model.requests[0].disconnected.wait()


async def test_the_cancel_signal_does_the_same_as_temporals_cancel(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run_id = await engine.start("adder")
        await gate.reached
        await engine.client.get_workflow_handle(run_id).signal("cancel", {"reason": "enough"})
        run = await engine.ended(run_id)
        described = await engine.client.get_workflow_handle(run_id).describe()
    assert run.status is RunStatus.CANCELLED
    assert described.status is not None
    assert described.status.name == "CANCELED"


async def test_a_terminated_run_reads_as_cancelled(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run_id = await engine.start("adder")
        await gate.reached
        await engine.client.get_workflow_handle(run_id).terminate("operator")
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert run.stop_reason is StopReason.TERMINATED
    assert run.error is not None
    assert run.error.code is ErrorCode.TERMINATED


async def test_a_run_that_takes_too_long_ends_as_timeout(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run = await engine.run("adder", timeouts=Timeouts(run_s=3))
    assert run.status is RunStatus.TIMEOUT
    assert run.error is not None
    assert run.error.code is ErrorCode.RUN_TIMEOUT
    assert run.steps[0].text == "Half "


async def test_a_cancel_after_the_end_changes_nothing(engine: Engine) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("adder")
        again = await engine.manager.cancel(run.run_id)
    assert again == run
