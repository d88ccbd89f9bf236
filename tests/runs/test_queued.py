"""A Run that waits for its turn in a Session: it begins, is cancelled, or has waited too long."""

from datetime import timedelta

import pytest

from perdure.runs import record
from perdure.runs.decide import CallModel, Finish, decide
from perdure.runs.errors import ErrorCode, IllegalEvent
from perdure.runs.limits import DEFAULT_QUEUE_S, Limits, Timeouts
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, FollowUp, SessionShare
from perdure.runs.transcript import messages
from tests.runs.building import answered, at, pending, reply

SAID = (UserMessage(content="Hello."), AssistantMessage(content="Hi."))
SHARE = SessionShare(
    context=ContextBundle(messages=SAID, variables={"a": 1, "b": 1}),
    budget=Limits(max_tokens=20),
    context_window=100,
)


def begin(run: Run) -> Run:
    return run.apply(record.started(run, at(5), SHARE))


def expire(run: Run) -> Run:
    event = record.queue_expired(run, at(5))
    return run if event is None else run.apply(event)


def cancel(run: Run) -> Run:
    event = record.cancel_requested(run, at(5), "Enough.")
    return run if event is None else run.apply(event)


def in_order(*happenings: str) -> Run:
    run = pending(queued=True, session_id="s1")
    for each in happenings:
        run = {"begin": begin, "expire": expire, "cancel": cancel}[each](run)
    return run


@pytest.mark.parametrize(
    ("timeouts", "patience"), [(Timeouts(), DEFAULT_QUEUE_S), (Timeouts(queue_s=7), 7)]
)
def test_it_waits_for_so_long(timeouts: Timeouts, patience: float) -> None:
    run = pending(queued=True, timeouts=timeouts)
    assert (run.status, run.started_at) == ("pending", None)
    assert run.waiting_on is not None
    assert run.waiting_on.type == "queue"
    assert run.waiting_on.since == at(0)
    assert run.waiting_on.expires_at == at(0) + timedelta(seconds=patience)
    with pytest.raises(IllegalEvent):
        decide(run)


def test_it_begins_with_its_share() -> None:
    context = ContextBundle(messages=(UserMessage(content="Own."),), variables={"b": 2})
    run = begin(pending(queued=True, context=context))
    assert (run.status, run.started_at, run.waiting_on) == ("running", at(5), None)
    assert [each.content for each in messages(run)] == ["Hello.", "Hi.", "Own.", "Go."]
    assert run.context.variables == {"a": 1, "b": 2}
    assert (run.budget, run.context_window) == (SHARE.budget, 100)
    assert run.transcript_chars == len("Hello.Hi.Own.Go.")
    assert decide(run) == CallModel(1)


def test_one_that_begins_at_once_gets_the_same() -> None:
    waited = begin(pending(queued=True))
    at_once = pending(share=SHARE)
    for name in ["context", "budget", "context_window", "transcript_chars"]:
        assert getattr(waited, name) == getattr(at_once, name)


def test_what_is_left_of_the_limits_of_its_session_ends_it() -> None:
    run = begin(pending(queued=True, limits=Limits(max_tokens=1000)))
    run = answered(run, reply("One."))
    assert decide(run) == Finish("completed", "end_turn", output="One.")
    more = FollowUp(after_step=1, text="And now?")
    finish = decide(run.model_copy(update={"budget": Limits(max_tokens=12), "follow_ups": (more,)}))
    assert isinstance(finish, Finish)
    assert (finish.status, finish.stop_reason) == ("failed", "max_tokens")
    assert finish.error is not None
    assert "Session" in finish.error.hint


def test_one_that_waited_too_long_ends_so() -> None:
    run = in_order("expire")
    finish = decide(run)
    assert isinstance(finish, Finish)
    assert (finish.status, finish.stop_reason) == ("timeout", "queue_expired")
    ended = run.apply(record.ended(run, at(6), finish))
    assert ended.error is not None
    assert ended.error.code is ErrorCode.QUEUE_EXPIRED
    assert (ended.started_at, ended.waiting_on, ended.steps) == (None, None, ())


def test_one_that_is_cancelled_before_its_turn_ends_so() -> None:
    run = in_order("cancel")
    finish = decide(run)
    assert finish == Finish("cancelled", "user_cancel", reason="Enough.")
    ended = run.apply(record.ended(run, at(6), finish))
    assert (ended.started_at, ended.waiting_on, ended.steps) == (None, None, ())


def test_one_whose_place_is_taken_says_so() -> None:
    run = pending(queued=True)
    event = record.cancel_requested(run, at(1), "Run 'r2' takes its place.", by="session")
    assert event is not None
    finish = decide(run.apply(event))
    assert finish == Finish("cancelled", "superseded", reason="Run 'r2' takes its place.")


def test_begin_and_cancel_make_the_same_run_in_either_order() -> None:
    run = in_order("begin", "cancel")
    assert in_order("cancel", "begin") == run
    assert decide(run) == Finish("cancelled", "user_cancel", reason="Enough.")


def test_its_turn_wins_over_the_end_of_its_patience_in_either_order() -> None:
    for run in [in_order("begin", "expire"), in_order("expire", "begin")]:
        assert (run.status, run.cancel) == ("running", None)
        assert decide(run) == CallModel(1)


@pytest.mark.parametrize("second", ["cancel", "expire"])
@pytest.mark.parametrize("begins", [True, False])
def test_a_cancel_wins_over_the_end_of_its_patience_in_either_order(
    second: str, begins: bool
) -> None:
    first = "expire" if second == "cancel" else "cancel"
    run = in_order(first, second, *(["begin"] if begins else []))
    assert decide(run) == Finish("cancelled", "user_cancel", reason="Enough.")


def test_it_begins_once_only() -> None:
    with pytest.raises(IllegalEvent):
        begin(in_order("begin"))


def test_one_that_does_not_wait_has_no_patience_to_end() -> None:
    running = in_order("begin")
    assert record.queue_expired(running, at(9)) is None
