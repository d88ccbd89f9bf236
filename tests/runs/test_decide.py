"""What a Run does next, asked of Runs that stand at every fork of the road."""

import pytest

from perdure.runs import record
from perdure.runs.decide import CallModel, CallTools, Finish, decide
from perdure.runs.errors import ErrorCode, IllegalEvent, error
from perdure.runs.limits import MAX_TRANSCRIPT_BYTES
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import ToolReply
from tests.runs.building import (
    answered,
    asking,
    at,
    ended_step,
    executed,
    moves,
    pending,
    rejected,
    reply,
    running,
    wanted,
)


def test_nothing_is_to_decide_before_the_start_while_a_step_runs_and_after_the_end() -> None:
    failed = running().apply(moves(running())["failed"])
    for run in (pending(), asking(running()), failed):
        with pytest.raises(IllegalEvent):
            decide(run)


def test_the_first_request_to_stop_counts_and_its_reason_is_kept() -> None:
    run = running()
    event = record.cancel_requested(run, at(2), "Enough.")
    assert event is not None
    run = run.apply(event)
    assert record.cancel_requested(run, at(3), "Really.") is None
    assert record.deadline_passed(run, at(3)) is None
    assert decide(run) == Finish(RunStatus.CANCELLED, StopReason.USER_CANCEL, reason="Enough.")


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_of_a_failed_model_step_ends_the_run_and_names_the_step(
    code: ErrorCode,
) -> None:
    finish = decide(ended_step(asking(running()), 1, error(code)))
    assert isinstance(finish, Finish)
    assert finish.status is RunStatus.FAILED
    assert finish.error == error(code, step=1)


def test_requested_calls_are_executed_and_rejected_ones_only_told() -> None:
    run = answered(running(), reply(None, wanted("a"), rejected("b"), wanted("c")))
    decision = decide(run)
    assert isinstance(decision, CallTools)
    assert [call.call_id for call in decision.calls] == ["a", "c"]
    assert run.tool_calls[1].result == (
        '{"error":{"code":"tool_not_found",'
        '"message":"The model called a tool that the agent does not have."}}'
    )


def test_three_turns_of_nothing_but_unusable_calls_end_a_run_and_one_good_call_forgives() -> None:
    run = running()
    for _ in range(2):
        run = answered(run, reply(None, rejected("a"), rejected("b")))
    assert decide(run) == CallModel(turn=3)
    forgiven = executed(
        answered(run, reply(None, wanted("a"), rejected("b"))), "a", ToolReply(text="")
    )
    assert decide(forgiven) == CallModel(turn=4)
    finish = decide(answered(run, reply(None, rejected("a"))))
    assert isinstance(finish, Finish)
    assert finish.error is not None
    assert finish.error.code is ErrorCode.MODEL_MISBEHAVING


def test_a_transcript_too_long_to_be_carried_along_ends_the_run() -> None:
    run = answered(running("x" * MAX_TRANSCRIPT_BYTES), reply(None, rejected("a")))
    finish = decide(run)
    assert isinstance(finish, Finish)
    assert finish.error is not None
    assert finish.error.code is ErrorCode.CONTEXT_OVERFLOW
