"""The latest Run of a Session goes on: what it left before is replaced."""

import pytest

from perdure.runs.errors import (
    RunNotResumable,
    SessionBusy,
)
from tests.sessions.invariants import problems
from tests.sessions.world import World


def test_the_latest_run_goes_on_and_is_counted_and_told_once() -> None:
    world = World.new(max_tokens=1000)
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    world.acting["r2"].work()
    world.acting["r2"].work(calls=1)
    world.acting["r2"].terminate()
    world.catch_up()
    assert (world.session.usage.total_tokens, world.session.runs) == (12, 2)
    world.resume("r2")
    assert world.session.budget.max_tokens == 994
    world.catch_up()
    assert world.run("r2").budget.max_tokens == 994
    world.end("r2", "Two.")
    assert world.said[:3] == ["A.", "One.", "B."]
    assert world.said[-1] == "Two."
    assert world.said.count("B.") == 1
    assert problems(world) == []
    total = world.run("r1").usage.total_tokens + world.run("r2").usage.total_tokens
    assert (world.session.usage.total_tokens, world.session.runs) == (total, 2)


def test_a_run_that_another_has_followed_is_not_resumed() -> None:
    world = World.new()
    for run_id in ["r1", "r2"]:
        world.start(run_id, f"{run_id}?")
        world.acting[run_id].terminate()
        world.catch_up()
    with pytest.raises(RunNotResumable):
        world.resume("r1")
    world.start("r3", "C.")
    with pytest.raises(SessionBusy, match="r3"):
        world.resume("r2")
    world.acting["r3"].terminate()
    world.catch_up()
    world.session = world.session.cleared()
    with pytest.raises(RunNotResumable):
        world.resume("r3")


def test_a_run_is_resumable_after_one_whose_turn_never_came() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("r2", "B.", "enqueue")
    world.acting["r1"].terminate()
    world.acting["r2"].terminate()
    world.notice("r1")
    world.catch_up()
    assert (world.session.busy_with, world.session.runs) == (None, 1)
    world.resume("r1")
    world.catch_up()
    world.end("r1", "One.")
    assert world.said == ["A.", "One."]


def test_a_resumption_that_can_not_be_started_changes_nothing() -> None:
    world = World.new()
    world.start("r1", "A.", key="k")
    world.acting["r1"].work()
    world.acting["r1"].terminate()
    world.catch_up()
    before = world.session
    assert before.resuming(world.run("r1"), world.now).unknown("r1") == before


def test_a_run_that_is_resumed_and_then_rolled_back_is_forgotten_whole() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.acting["r1"].work()
    world.acting["r1"].cancel()
    world.acting["r1"].work("Part")
    world.catch_up()
    assert world.said == ["A.", "Part"]
    world.resume("r1")
    world.catch_up()
    world.start("r2", "B.", "rollback")
    world.end("r2", "Ok.")
    assert world.said == ["B.", "Ok."]


def test_a_run_that_was_rolled_back_says_everything_again_when_it_is_resumed() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.acting["r1"].work()
    world.acting["r1"].work("Let me look.", calls=1)
    world.acting["r1"].cancel("rollback")
    world.catch_up()
    assert world.said == []
    world.resume("r1")
    world.catch_up()
    world.end("r1", "One.")
    assert world.said == ["A.", "Let me look.", "One.", "One."]


def test_a_run_that_words_of_others_have_followed_is_not_resumed() -> None:
    """They were to be answered by a Run that was cancelled itself: they would be cut off."""
    world = World.new()
    world.start("r1", "A.")
    for run_id, text in [("r2", "B."), ("r3", "C.")]:
        world.ask(run_id, text, "interrupt")
        world.launched(run_id)
    world.acting["r3"].cancel()
    world.acting["r3"].work()
    world.notice("r3")
    world.catch_up()
    assert (world.said, world.session.busy_with) == (["A.", "B."], None)
    with pytest.raises(RunNotResumable):
        world.resume("r1")
