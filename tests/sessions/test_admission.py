"""Whether a Run may begin, and when: one request, one answer."""

from datetime import timedelta
from typing import Any

import pytest

from perdure.runs.errors import (
    IdempotencyConflict,
    QueueFull,
    RunAlreadyExists,
    SessionBusy,
    SessionLimitReached,
    SessionNotFound,
)
from perdure.runs.start import RunStart
from perdure.runs.usage import Usage
from perdure.sessions.admission import KEYS_FOR, MAX_STEERING, Admission, StartRequest, admit
from perdure.sessions.outcome import RunOutcome
from perdure.sessions.parts import DEFAULT_MAX_QUEUED, Interrupter, SessionSettings, Waiting
from perdure.sessions.session import Session
from tests.runs.building import START, at


def idle(**fields: Any) -> Session:
    """Return a Session in which nothing goes on."""
    begins: dict[str, Any] = {"session_id": "s1", "created_at": START, "last_active_at": START}
    return Session(**(begins | fields))


def busy(**fields: Any) -> Session:
    """Return a Session whose Run r1 is going on."""
    return idle(**fields).begun("r1", at(1))


def asked(run_id: str = "r2", on_busy: str = "reject", **fields: Any) -> StartRequest:
    """Return a request."""
    start = RunStart(agent="helper", input="Go.", session_id="s1")
    return StartRequest(run_id=run_id, start=start, on_busy=on_busy, **fields)


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback", "steer"])
def test_a_run_begins_at_once_when_nothing_goes_on(on_busy: str) -> None:
    session, admission = admit(idle(), asked(on_busy=on_busy), at(1))
    assert admission == Admission(how="begun", run_id="r2")
    assert session == idle().begun("r2", at(1))
    assert (session.runs, session.last_active_at) == (1, at(1))


@pytest.mark.parametrize(
    ("on_busy", "admission"),
    [
        ("enqueue", Admission(how="queued", run_id="r2")),
        ("interrupt", Admission(how="queued", run_id="r2", stop="r1")),
        ("rollback", Admission(how="queued", run_id="r2", stop="r1")),
        ("steer", Admission(how="steered", run_id="r1")),
    ],
)
def test_what_becomes_of_a_run_that_is_started_while_another_goes_on(
    on_busy: str, admission: Admission
) -> None:
    session, found = admit(busy(), asked(on_busy=on_busy), at(2))
    assert found == admission
    assert session.active is not None
    assert session.active.run_id == "r1"
    assert session.turns == (("r2",) if admission.how == "queued" else ())


def test_a_session_that_is_busy_says_with_which_run() -> None:
    with pytest.raises(SessionBusy, match="'s1' is busy with Run 'r1'") as refused:
        admit(busy(), asked(), at(2))
    assert refused.value.active_run_id == "r1"
    assert refused.value.hint


def test_a_session_whose_next_run_is_only_about_to_begin_is_busy_with_that() -> None:
    session = idle(queue=(Waiting(run_id="r5", since=at(1)),))
    with pytest.raises(SessionBusy) as refused:
        admit(session, asked(), at(2))
    assert refused.value.active_run_id == "r5"
    for on_busy in ["enqueue", "steer"]:
        assert admit(session, asked(on_busy=on_busy), at(2))[0].turns == ("r5", "r2")
    taken, admission = admit(session, asked(on_busy="interrupt"), at(2))
    assert (taken.turns, admission.stop) == (("r2", "r5"), None)


@pytest.mark.parametrize("allowed", [None, 0, 1, 3])
@pytest.mark.parametrize("on_busy", ["enqueue", "interrupt"])
def test_so_many_may_wait_and_one_that_interrupts(allowed: int | None, on_busy: str) -> None:
    session = busy(settings=SessionSettings(max_queued=allowed))
    most = DEFAULT_MAX_QUEUED if allowed is None else allowed
    for number in range(most):
        session, _ = admit(session, asked(f"q{number}", "enqueue"), at(2))
    if on_busy == "interrupt":
        session, _ = admit(session, asked("r8", "interrupt"), at(2))
        session, admission = admit(session, asked("r9", "interrupt"), at(2))
        assert (session.turns[0], len(session.turns)) == ("r9", most + 1)
        assert admission.superseded == ("r8",)
    with pytest.raises(QueueFull, match=f"{most} are allowed"):
        admit(session, asked("more", "enqueue"), at(2))


def test_only_so_much_is_said_to_one_run() -> None:
    session = busy()
    for number in range(MAX_STEERING):
        session, _ = admit(session, asked(f"m{number}", "steer"), at(2))
    with pytest.raises(QueueFull):
        admit(session, asked("more", "steer"), at(2))


def test_only_so_many_are_to_take_the_place_of_one_run() -> None:
    session = busy()
    for number in range(MAX_STEERING):
        session, _ = admit(session, asked(f"i{number}", "interrupt"), at(2))
    with pytest.raises(QueueFull):
        admit(session, asked("more", "rollback"), at(2))
    assert len(session.turns) == 1


def test_those_that_have_ended_need_not_be_stopped() -> None:
    over = Interrupter(run_id="r3", since=at(1), said="Go.", is_over=True)
    session = busy().model_copy(update={"interrupters": (over,)})
    _, admission = admit(session, asked(on_busy="interrupt"), at(2))
    assert (admission.stop, admission.superseded) == ("r1", ())


# Keys


@pytest.mark.parametrize("on_busy", ["enqueue", "interrupt", "rollback", "steer"])
@pytest.mark.parametrize("is_busy", [True, False])
def test_one_key_is_one_run(on_busy: str, is_busy: bool) -> None:
    session = busy() if is_busy else idle()
    session, first = admit(session, asked("r2", on_busy, key="k", digest="d"), at(2))
    again, second = admit(session, asked("r3", on_busy, key="k", digest="d"), at(3))
    assert second == Admission(how="replayed", run_id=first.run_id)
    assert again == session
    with pytest.raises(IdempotencyConflict, match=first.run_id):
        admit(session, asked("r3", on_busy, key="k", digest="other"), at(3))


def test_a_request_without_a_key_is_never_the_same() -> None:
    session, _ = admit(busy(), asked("r2", "enqueue"), at(2))
    session, admission = admit(session, asked("r3", "enqueue"), at(2))
    assert (admission.how, session.keys) == ("queued", ())


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [(timedelta(hours=24), True), (KEYS_FOR - timedelta(seconds=1), True), (KEYS_FOR, False)],
)
def test_a_key_is_kept_for_a_day(after: timedelta, is_kept: bool) -> None:
    session, _ = admit(busy(), asked("r2", "enqueue", key="k", digest="d"), at(2))
    later, _ = admit(session, asked("r3", "enqueue", key="l"), at(2) + after)
    assert [each.key for each in later.keys] == (["k", "l"] if is_kept else ["l"])
    if is_kept:
        with pytest.raises(IdempotencyConflict):
            admit(session, asked("r4", "enqueue", key="k", digest="e"), at(2) + after)
    else:
        _, admission = admit(session, asked("r4", "enqueue", key="k", digest="e"), at(2) + after)
        assert admission == Admission(how="queued", run_id="r4")


def test_a_refused_request_leaves_no_key() -> None:
    session, _ = admit(busy(), asked("r2", "enqueue", key="k", digest="d"), at(2))
    session = session.unknown("r2")
    assert (session.keys, session.turns) == ((), ())
    _, admission = admit(session, asked("r3", "enqueue", key="k", digest="other"), at(3))
    assert admission.run_id == "r3"


@pytest.mark.parametrize("is_over", ["closing", "limit"])
def test_a_key_is_answered_even_when_nothing_new_may_begin(is_over: str) -> None:
    session, _ = admit(busy(), asked("r2", "enqueue", key="k", digest="d"), at(2))
    if is_over == "closing":
        session = session.closed()
    else:
        spent = {"settings": SessionSettings(max_tokens=1), "usage": Usage(input_tokens=1)}
        session = session.model_copy(update=spent)
    _, admission = admit(session, asked("r3", "enqueue", key="k", digest="d"), at(2))
    assert admission == Admission(how="replayed", run_id="r2")


# Refusals


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback", "steer"])
@pytest.mark.parametrize("run_id", ["active", "queued", "steered", "taking", "latest", "keyed"])
def test_an_id_that_is_known_is_refused(run_id: str, on_busy: str) -> None:
    """Else one Run would stand twice in the Session, and its end be taken for the other's."""
    session = idle()
    for ended, key in [("keyed", "k"), ("latest", "")]:
        session, _ = admit(session, asked(ended, key=key), at(1))
        session = session.ended(RunOutcome(run_id=ended, status="completed"), at(1))
    for known, how in [
        ("active", "reject"),
        ("queued", "enqueue"),
        ("steered", "steer"),
        ("taking", "interrupt"),
    ]:
        session, _ = admit(session, asked(known, how), at(1))
    with pytest.raises(RunAlreadyExists, match=run_id):
        admit(session, asked(run_id, on_busy), at(2))


@pytest.mark.parametrize("on_busy", ["reject", "enqueue", "interrupt", "rollback", "steer"])
@pytest.mark.parametrize("session", [idle(), busy()])
def test_a_session_that_is_being_deleted_takes_no_more(session: Session, on_busy: str) -> None:
    with pytest.raises(SessionNotFound):
        admit(session.closed(), asked(on_busy=on_busy), at(2))


@pytest.mark.parametrize(
    ("settings", "used", "is_reached"),
    [
        ({}, Usage(input_tokens=10**9, cost=10**6), False),
        ({"max_tokens": 10}, Usage(input_tokens=5, output_tokens=4), False),
        ({"max_tokens": 10}, Usage(input_tokens=5, output_tokens=5), True),
        ({"max_cost": 0.5}, Usage(cost=0.49), False),
        ({"max_cost": 0.5}, Usage(cost=0.5), True),
    ],
)
def test_a_session_that_has_used_what_it_may_use_takes_no_more(
    settings: dict[str, Any], used: Usage, is_reached: bool
) -> None:
    session = idle(settings=SessionSettings(**settings), usage=used)
    if not is_reached:
        assert admit(session, asked(), at(1))[1].how == "begun"
        return
    with pytest.raises(SessionLimitReached, match="'s1'"):
        admit(session, asked(), at(1))


@pytest.mark.parametrize(
    ("settings", "used", "left"),
    [
        ({}, Usage(input_tokens=9, cost=9), (None, None)),
        ({"max_tokens": 10}, Usage(input_tokens=4, output_tokens=2), (4, None)),
        ({"max_tokens": 10}, Usage(input_tokens=40), (1, None)),
        ({"max_cost": 0.5}, Usage(cost=0.25), (None, 0.25)),
        ({"max_cost": 0.5}, Usage(cost=2), (None, 1e-9)),
    ],
)
def test_what_is_left_for_a_run(
    settings: dict[str, Any], used: Usage, left: tuple[int | None, float | None]
) -> None:
    session = idle(settings=SessionSettings(**settings), usage=used)
    assert (session.budget.max_tokens, session.budget.max_cost) == left
    assert session.share.budget == session.budget
