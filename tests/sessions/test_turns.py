"""Whose turn it is, and what is kept of those whose turn ends early: stories of a few Runs each."""

import pytest

from perdure.runs.errors import IllegalEvent
from tests.runs.building import at
from tests.sessions.world import World


def test_the_next_run_begins_with_what_was_said_and_gets_the_variables() -> None:
    world = World.new()
    world.session = world.session.model_copy(update={"variables": {"n": 1}})
    world.start("r1", "Hello.")
    world.end("r1", "Hi.")
    world.start("r2", "Who?")
    run = world.run("r2")
    assert [message.content for message in run.context.messages] == ["Hello.", "Hi."]
    assert run.context.variables == {"n": 1}
    world.end("r2", "Me.")
    assert world.said == ["Hello.", "Hi.", "Who?", "Me."]
    assert (world.session.runs, world.session.busy_with) == (2, None)


def test_never_two_runs_have_their_turn() -> None:
    world = World.new()
    world.start("r1", "A.")
    with pytest.raises(IllegalEvent):
        world.session.begun("r2", at(9))


def test_runs_in_the_queue_have_their_turns_in_order() -> None:
    world = World.new()
    world.start("r1", "A.")
    for run_id, text in [("r2", "B."), ("r3", "C.")]:
        assert world.start(run_id, text, "enqueue").how == "queued"
        assert world.run(run_id).status == "pending"
    assert world.session.turns == ("r2", "r3")
    for run_id in ["r1", "r2", "r3"]:
        world.end(run_id, f"To {run_id}.")
    assert world.said == ["A.", "To r1.", "B.", "To r2.", "C.", "To r3."]


def test_what_an_interrupted_run_was_saying_is_kept() -> None:
    world = World.new()
    world.start("r1", "Tell me.")
    world.acting["r1"].work()
    world.ask("r2", "Shorter!", "interrupt")
    world.launched("r2")
    world.deliver()
    world.acting["r1"].work("Once upon a")
    world.catch_up()
    assert world.run("r1").stop_reason == "superseded"
    assert world.run("r2").status == "running"
    world.end("r2", "Ok.")
    assert world.said == ["Tell me.", "Once upon a", "Shorter!", "Ok."]


def test_what_a_rolled_back_run_said_is_forgotten_though_it_was_cancelled_before() -> None:
    world = World.new()
    world.start("r0", "A.")
    world.end("r0", "B.")
    world.start("r1", "Tell me.")
    world.acting["r1"].work()
    world.acting["r1"].cancel("now")
    world.start("r2", "Other.", "rollback")
    world.end("r2", "Ok.")
    assert world.run("r1").cancel.mode == "now"
    assert world.said == ["A.", "B.", "Other.", "Ok."]


def test_users_words_are_kept_in_order_when_they_interrupt_each_other() -> None:
    world = World.new()
    world.start("r1", "A.")
    for run_id, text in [("r2", "B."), ("r3", "C."), ("r4", "D.")]:
        world.ask(run_id, text, "interrupt")
        world.launched(run_id)
    assert world.session.turns == ("r4",)
    world.catch_up()
    world.end("r4", "Ok.")
    assert world.said == ["A.", "B.", "C.", "D.", "Ok."]
    assert [world.run(each).stop_reason for each in ("r1", "r2", "r3")] == ["superseded"] * 3
    assert world.begun == ["r1", "r4"]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("interrupt", "interrupt", ["A.", "B.", "C.", "Ok."]),
        ("rollback", "interrupt", ["B.", "C.", "Ok."]),
        ("interrupt", "rollback", ["C.", "Ok."]),
        ("rollback", "rollback", ["C.", "Ok."]),
    ],
)
@pytest.mark.parametrize("is_slow", [True, False])
def test_one_interrupts_another(first: str, second: str, kept: list[str], is_slow: bool) -> None:
    """Whether the first of them has ended before the second has begun, or not."""
    world = World.new()
    world.start("r1", "A.")
    for run_id, text, on_busy in [("r2", "B.", first), ("r3", "C.", second)]:
        world.ask(run_id, text, on_busy)
        world.launched(run_id)
    if not is_slow:
        world.acting["r2"].cancel("now", "session")
        world.acting["r2"].work()
        world.notice("r2")
    world.catch_up()
    world.end("r3", "Ok.")
    assert world.said == kept


def test_one_that_interrupts_and_is_cancelled_itself_leaves_nothing() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.ask("r2", "B.", "rollback")
    world.launched("r2")
    world.acting["r2"].cancel()
    world.acting["r2"].work()
    world.notice("r2")
    world.catch_up()
    assert (world.said, world.session.busy_with, world.session.interrupters) == ([], None, ())
    world.start("r3", "C.")
    world.end("r3", "Ok.")
    assert world.said == ["C.", "Ok."]


def test_those_in_the_queue_keep_their_turn_when_one_interrupts() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("r2", "B.", "enqueue")
    world.start("r3", "C.", "interrupt")
    assert world.session.busy_with == "r3"
    for run_id in ["r3", "r2"]:
        world.end(run_id, "Ok.")
    assert world.said == ["A.", "C.", "Ok.", "B.", "Ok."]


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
def test_one_that_can_not_be_started_takes_nobodys_place(on_busy: str) -> None:
    world = World.new()
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    world.passes(days=2)
    before = world.session.model_copy(update={"latest": None, "keys": ()})
    world.session = before
    world.ask("r1", "Again.", on_busy, key="k")
    assert world.session.turns == ("r1",)
    world.launched("r1")
    assert world.session == before
    world.end("r2", "Two.")
    assert world.said == ["A.", "One.", "B.", "Two."]


def test_one_that_can_not_be_started_gives_the_place_back_that_it_took() -> None:
    world = World.new()
    world.start("r0", "Old.")
    world.end("r0", "Ok.")
    world.session = world.session.cleared()
    world.start("r1", "A.")
    world.ask("r2", "B.", "interrupt")
    world.ask("r0", "Again.", "rollback")
    assert world.session.turns == ("r0",)
    world.launched("r0")
    world.catch_up()
    assert world.session.busy_with == "r2"
    world.end("r2", "Ok.")
    assert world.said == ["A.", "B.", "Ok."]


def test_the_latest_run_stays_resumable_when_the_next_can_not_be_started() -> None:
    world = World.new()
    world.start("r0", "Old.")
    world.end("r0", "Ok.")
    world.session = world.session.cleared()
    world.start("r1", "A.")
    world.acting["r1"].terminate()
    world.catch_up()
    before = world.session
    world.ask("r0", "Again.")
    world.launched("r0")
    assert world.session == before.model_copy(update={"last_active_at": world.now})
