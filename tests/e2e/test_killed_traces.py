"""One Trace for one Run, whatever happens to its workers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import ErrorCode, Limits, Timeouts
from perdure.engine.dev_server import DYNAMIC_CONFIG
from perdure.runs import spans
from perdure.runs.status import RunStatus
from perdure.runs.tracing import span_of
from tests.conftest import served_apart
from tests.e2e.ledger import Ledger
from tests.e2e.traced import assert_one_tree, serving
from tests.harness.engine import Engine
from tests.harness.otlp import Receiver
from tests.harness.processes import kill
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    ScriptedOpenAI,
    call,
    text,
    tool_calls,
)


@pytest.fixture
async def short_histories(tmp_path: Path, model: ScriptedOpenAI) -> AsyncIterator[Engine]:
    """A server on which Runs continue as new after a few turns."""
    limits = DYNAMIC_CONFIG | {
        "limit.historyCount.suggestContinueAsNew": 40,
        # A worker that has died is noticed to be gone after so long, by default 10 s.
        "matching.stickyPollerUnavailableWindow": '"1s"',
    }
    async with served_apart(tmp_path, model, limits) as engine:
        yield engine


async def test_a_run_is_one_trace_over_three_kills_a_continue_as_new_and_a_resumption(
    short_histories: Engine, receiver: Receiver, tmp_path: Path
) -> None:
    engine, gate = short_histories, Gate(timeout_s=90)
    turns, ledgers = 8, [Ledger(tmp_path / name) for name in ("first", "second")]
    for each in ledgers:
        each.path.parent.mkdir()

    def answer(request: RecordedRequest) -> Reply:
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn == turns:
            return text("All done.", usage=(100, 10))
        if turn in (1, 6):
            return tool_calls(call("look", ledgers[turn // 6].entry(str(turn))), usage=(100, 10))
        asked = tool_calls(call("note", {"text": str(turn)}), usage=(100, 10))
        return asked.hold(gate, before_chunk=1) if turn == 3 else asked

    engine.model.respond_with(answer)
    env = receiver.env("grpc")
    async with serving(engine, **env) as first:
        run_id = await engine.start(
            "clerk", timeouts=Timeouts(heartbeat_s=3), limits=Limits(max_turns=turns)
        )
        await ledgers[0].written()
        await kill(first)
    ledgers[0].open()
    async with serving(engine, **env) as second:
        await gate.reached
        await kill(second)
    gate.open()
    async with serving(engine, **env) as third:
        await ledgers[1].written()
        await kill(third)
    ledgers[1].open()
    async with serving(engine, **env):
        failed = await engine.ended(run_id)
        assert failed.error is not None
        assert failed.error.code is ErrorCode.MAX_TURNS
        assert len(await engine.executions(run_id)) > 1, "it never continued as new"
        await engine.manager.resume(run_id, limits=Limits(max_turns=20))
        run = await engine.ended(run_id)
        await receiver.until(run.trace_id, *["invoke_agent clerk"] * 2)
    assert run.status is RunStatus.COMPLETED
    found = receiver.of(run.trace_id)
    assert [span for span in receiver.spans if span not in found] == []
    assert_one_tree(found)
    first_life, second_life = sorted(
        (span for span in found if span.name == "invoke_agent clerk"),
        key=lambda span: bool(span["perdure.run.resumed"]),
    )
    assert first_life.span_id == span_of(run_id, None)
    assert (first_life.error, first_life["error.type"]) == (True, "max_turns")
    assert second_life.parent_id == first_life.span_id
    assert (second_life.error, second_life["error.type"]) == (False, None)
    assert second_life[spans.INPUT_TOKENS] == run.usage.input_tokens
    # A killed worker's Step has the span of the attempt that ended it. What had ended within the
    # moments before a kill may be lost; everything else is there, once.
    steps = [(span["perdure.step"], span["perdure.attempt"]) for span in found if span[spans.STEP]]
    assert len(steps) == len(set(steps))
    assert len(steps) >= len(run.steps) - 3
    below = {first_life.span_id: [], second_life.span_id: []}  # type: ignore[var-annotated]
    for span in found:
        if span[spans.STEP]:
            below[span.parent_id].append(span[spans.STEP])
    assert len(below[second_life.span_id]) == 1
    retried = {(step.number, step.attempt) for step in run.steps if step.attempt > 1}
    assert len(retried) >= 3
    assert retried <= set(steps)
