"""What a Run says is counted, and what it summed up is known, at every point of it."""

from perdure.client.continuing import Fork, forked_start
from perdure.runs import record
from perdure.runs.decide import CallModel, next_turn
from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle
from perdure.runs.transcript import messages, since_last_answer
from tests.runs.building import (
    answered,
    at,
    ended_step,
    executed,
    reply,
    running,
    wanted,
    with_mark,
)


def compacted(run: Run, summary: str) -> Run:
    """Return the Run after one whole compaction."""
    decision = CallModel(next_turn(run), "compact")
    started = run.apply(record.model_step_started(run, at(5), decision))
    return ended_step(started, len(started.steps), reply(summary))


def one_turn(run: Run) -> Run:
    """Return the Run after a turn of one model call and one tool call."""
    run = answered(run, reply(None, wanted("a")))
    return executed(run, "a", error(ErrorCode.TOOL_FAILED))


def test_a_fork_between_two_compactions_begins_with_the_first_summary() -> None:
    context = ContextBundle(messages=(UserMessage(content="Hi."), AssistantMessage(content="Hi.")))
    run = one_turn(compacted(running(context=context), "First."))
    between = len(run.steps)
    run = one_turn(compacted(one_turn(run), "Second."))
    fork = Run.begin(record.queued("r2", forked_start(run, Fork(step=between)), at(0)))
    assert [each.summary for each in fork.compactions] == ["First."]
    (first, *_) = messages(fork)
    assert "First." in (first.content or "")
    mark, new = since_last_answer(fork)
    assert tuple(messages(fork, mark.count)) == new
    assert mark == with_mark(fork_before(fork), reply(None, wanted("a"))).mark


def fork_before(fork: Run) -> Run:
    """Return the Run without its last turn."""
    return fork.model_copy(update={"steps": fork.steps[:-2], "tool_calls": fork.tool_calls[:-1]})


def test_what_is_said_of_calls_that_a_limit_forbids_is_counted() -> None:
    run = answered(running(""), reply(None, wanted("a"), wanted("b")))
    limit = error(ErrorCode.MAX_TOOL_CALLS)
    decision = CallModel(next_turn(run), "conclude", limit=limit)
    run = run.apply(record.model_step_started(run, at(5), decision))
    said = sum(len(message.content or "") for message in messages(run))
    assert said > 0
    assert run.transcript_chars >= said
