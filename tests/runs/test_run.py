"""The fold: which Event may follow which, and what each does to a Run."""

import pytest

from perdure.runs import record
from perdure.runs.contract import Resumption
from perdure.runs.decide import CallModel, Finish, decide
from perdure.runs.errors import ErrorCode, IllegalEvent, error
from perdure.runs.events import CancelRequested, Event, StepStarted
from perdure.runs.limits import Limits, Terms
from perdure.runs.messages import UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, RunStart
from perdure.runs.status import TRANSITIONS, RunStatus
from perdure.runs.steps import ToolReply
from tests.runs.building import (
    answered,
    asking,
    at,
    ended_step,
    executed,
    moves,
    pending,
    reply,
    running,
    wanted,
)

TERMS = Terms(limits=Limits(max_turns=9, max_tokens=99))
LEGAL = {
    ("pending", "running"),
    ("pending", "failed"),
    ("pending", "cancelled"),
    ("pending", "timeout"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "timeout"),
    ("failed", "running"),
    ("cancelled", "running"),
    ("timeout", "running"),
}


def in_status(status: RunStatus) -> Run:
    """Return a Run that stands at `status`."""
    if status is RunStatus.PENDING:
        return pending()
    run = running()
    return run if status is RunStatus.RUNNING else run.apply(moves(run)[status])


def refuses(run: Run, event: Event) -> None:
    """Check that an Event can't follow, and that trying changes nothing."""
    before = run.model_dump_json()
    with pytest.raises(IllegalEvent):
        run.apply(event)
    assert run.model_dump_json() == before


@pytest.mark.parametrize("target", list(RunStatus))
@pytest.mark.parametrize("source", list(RunStatus))
def test_a_status_changes_only_as_the_table_says(source: RunStatus, target: RunStatus) -> None:
    run = in_status(source)
    event = moves(run)[target]
    if source.is_terminal and target is RunStatus.RUNNING:
        event = record.resumed(run, at(9), Resumption(first_execution="e1"))
    assert ((source, target) in LEGAL) == (target in TRANSITIONS[source])
    if (source, target) in LEGAL:
        assert run.apply(event).status is target
    else:
        refuses(run, event)


@pytest.mark.parametrize("status", list(RunStatus))
def test_only_the_four_ends_are_terminal(status: RunStatus) -> None:
    ends = {"completed", "failed", "cancelled", "timeout"}
    assert status.is_terminal == in_status(status).is_terminal == (status in ends)


@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_an_event_with_a_gap_or_a_repeated_number_is_illegal(shift: int) -> None:
    run = running()
    event = record.model_step_started(run, at(2), CallModel(1))
    refuses(run, event.model_copy(update={"sequence_number": event.sequence_number + shift}))


def test_an_event_of_another_run_is_illegal() -> None:
    run = running()
    event = record.model_step_started(run, at(2), CallModel(1))
    refuses(run, event.model_copy(update={"run_id": "r2"}))


def test_a_run_begins_with_run_queued_numbered_0_and_nothing_else() -> None:
    run = pending()
    with pytest.raises(IllegalEvent, match=r"run\.started"):
        Run.begin(record.started(run, at(1)))
    queued = record.queued("r1", RunStart(agent="helper", input="Go."), at(0))
    with pytest.raises(IllegalEvent):
        Run.begin(queued.model_copy(update={"sequence_number": 1}))


def test_steps_start_in_a_running_run_and_in_order_only() -> None:
    refuses(pending(), record.model_step_started(pending(), at(1), CallModel(1)))
    run = running()
    refuses(run, StepStarted(**run.stamp(at(2)), step=2, kind="model", name="m", turn=1))


def test_a_step_ends_once_and_only_after_it_started() -> None:
    run = running()
    refuses(run, record.step_ended(run, at(2), 1, reply("Hi.")))
    refuses(run, record.step_ended(run, at(2), 0, reply("Hi.")))
    run = answered(run, reply("Hi."))
    refuses(run, record.step_ended(run, at(3), 1, reply("Hi.")))


def test_a_tool_step_for_a_call_that_nobody_asked_for_is_illegal() -> None:
    run = answered(running(), reply(None, wanted("a")))
    refuses(run, record.tool_step_started(run, at(4), "look", "b"))


def test_a_whole_run_in_one_value() -> None:
    run = running(
        "How much is 1+1?",
        session_id="s1",
        context=ContextBundle(messages=(UserMessage(content="Hello."),)),
        limits=Limits(max_turns=5),
    )
    run = answered(run, reply(None, wanted("a"), terms=TERMS))
    run = executed(run, "a", ToolReply(text="2"))
    run = answered(run, reply("It is 2.", finish_reason="stop"))
    finish = decide(run)
    assert isinstance(finish, Finish)
    run = run.apply(record.ended(run, at(8), finish))
    digests = [step.mark.digest for step in run.steps if step.mark]
    usage = {
        "input_tokens": 10,
        "output_tokens": 2,
        "model_calls": 1,
        "cost": 0.25,
        "total_tokens": 12,
        "model": "m",
    }
    assert run.model_dump(mode="json", exclude_defaults=True) == {
        "run_id": "r1",
        "session_id": "s1",
        "agent": "helper",
        "status": "completed",
        "stop_reason": "end_turn",
        "created_at": "2030-01-01T00:00:00Z",
        "started_at": "2030-01-01T00:00:01Z",
        "completed_at": "2030-01-01T00:00:08Z",
        "last_progress_at": "2030-01-01T00:00:08Z",
        "input_message": "How much is 1+1?",
        "context": {"messages": [{"content": "Hello."}]},
        "steps": [
            {
                "number": 1,
                "kind": "model",
                "turn": 1,
                "name": "m",
                "status": "completed",
                "usage": usage,
                "mark": {"count": 3, "digest": digests[0]},
                "started_at": "2030-01-01T00:00:02Z",
                "completed_at": "2030-01-01T00:00:03Z",
            },
            {
                "number": 2,
                "kind": "tool",
                "turn": 1,
                "name": "look",
                "status": "completed",
                "call_id": "a",
                "started_at": "2030-01-01T00:00:04Z",
                "completed_at": "2030-01-01T00:00:03Z",
            },
            {
                "number": 3,
                "kind": "model",
                "turn": 2,
                "name": "m",
                "status": "completed",
                "text": "It is 2.",
                "finish_reason": "stop",
                "usage": usage,
                "mark": {"count": 5, "digest": digests[1]},
                "started_at": "2030-01-01T00:00:02Z",
                "completed_at": "2030-01-01T00:00:03Z",
            },
        ],
        "turn": 2,
        "output": "It is 2.",
        "tool_calls": [
            {
                "call_id": "a",
                "name": "look",
                "arguments": "{}",
                "model_step": 1,
                "step": 2,
                "status": "completed",
                "result": "2",
            }
        ],
        "usage": {
            "input_tokens": 20,
            "output_tokens": 4,
            "model_calls": 2,
            "cost": 0.5,
            "tool_calls": 1,
            "by_model": [
                usage
                | {
                    "input_tokens": 20,
                    "output_tokens": 4,
                    "model_calls": 2,
                    "cost": 0.5,
                    "total_tokens": 24,
                }
            ],
            "total_tokens": 24,
        },
        "limits": {"max_turns": 5, "max_tokens": 99},
        "settled": True,
        "last_event": 8,
        "transcript_chars": len("How much is 1+1?Hello.{}2It is 2."),
        "total_tokens": 24,
        "trace_id": run.trace_id,
        "total_cost": 0.5,
        "total_duration_ms": 7000,
        "is_terminal": True,
    }


def test_the_current_step_is_the_latest_that_runs_until_none_does() -> None:
    run = answered(running(), reply(None, wanted("a"), wanted("b")))
    for call_id in ("a", "b"):
        run = run.apply(record.tool_step_started(run, at(4), "look", call_id))
    assert run.current_step == 3
    run = ended_step(run, 3, ToolReply(text="b"))
    assert run.current_step == 2
    run = ended_step(run, 2, ToolReply(text="a"))
    assert run.current_step is None
    assert decide(run) == CallModel(turn=2)


def test_calls_that_ids_of_an_earlier_turn_come_back_for_are_told_apart() -> None:
    run = executed(answered(running(), reply(None, wanted("a"))), "a", ToolReply(text="one"))
    run = executed(answered(run, reply(None, wanted("a"))), "a", ToolReply(text="two"))
    assert [call.result for call in run.tool_calls] == ["one", "two"]


def test_calls_still_open_at_the_end_are_settled_as_cancelled() -> None:
    run = answered(running(), reply(None, wanted("a"), wanted("b")))
    run = run.apply(record.tool_step_started(run, at(4), "look", "a"))
    run = run.apply(moves(run)["failed"])
    assert [call.status for call in run.tool_calls] == ["cancelled", "cancelled"]
    # The first had begun, and its tool is `unsafe`: nobody knows what became of it.
    codes = [call.error.code.value if call.error else None for call in run.tool_calls]
    assert codes == ["outcome_unknown", "cancelled"]
    assert all(c in (call.result or "") for c, call in zip(codes, run.tool_calls, strict=True))
    assert run.current_step is None


def test_a_stopped_step_is_cancelled_and_what_it_brought_is_kept() -> None:
    run = asking(running())
    run = ended_step(run, 1, reply("Hal", error=error(ErrorCode.CANCELLED)))
    assert (run.steps[0].status, run.steps[0].text) == ("cancelled", "Hal")
    assert run.total_tokens == 12


def test_the_first_answer_completes_the_limits_and_overrules_none() -> None:
    run = running(limits=Limits(max_turns=5))
    run = answered(run, reply("Hi.", terms=TERMS))
    assert run.limits == Limits(max_turns=5, max_tokens=99)


def test_a_second_request_to_stop_changes_nothing_of_the_first() -> None:
    run = running()
    for reason in ("Enough.", "Really."):
        run = run.apply(CancelRequested(**run.stamp(at(2)), reason=reason))
    assert run.cancel is not None
    assert run.cancel.reason == "Enough."
