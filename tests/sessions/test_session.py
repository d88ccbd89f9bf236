"""What becomes of a conversation, by what its Runs do; and how a Session begins and ends."""

import json

import pytest

from perdure.runs.errors import (
    ErrorCode,
    SessionBusy,
    SessionNotFound,
)
from perdure.runs.messages import UserMessage
from perdure.runs.transcript import SUMMARY
from perdure.runs.usage import Usage
from perdure.sessions.outcome import RunOutcome
from perdure.sessions.session import Session
from tests.runs.building import at
from tests.sessions.invariants import problems
from tests.sessions.world import World


def compacting(world: World, run_id: str) -> None:
    """Have a Run sum the conversation up: its messages were too many for the model."""
    acting = world.acting[run_id]
    acting.work()
    acting.work(code=ErrorCode.CONTEXT_OVERFLOW)
    acting.work()
    acting.work("All of it.")


def test_what_a_run_has_summed_up_replaces_the_conversation() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    compacting(world, "r2")
    world.end("r2", "Two.")
    assert world.said == [SUMMARY.format(summary="All of it.", task="B."), "Two."]
    world.start("r3", "C.")
    assert len(world.run("r3").context.messages) == 2


def test_a_run_that_has_summed_up_and_is_rolled_back_leaves_the_conversation_whole() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    compacting(world, "r2")
    world.acting["r2"].cancel("rollback")
    world.catch_up()
    assert world.said == ["A.", "One."]


def test_a_run_that_has_summed_up_and_is_resumed_replaces_the_conversation_again() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    compacting(world, "r2")
    world.acting["r2"].terminate()
    world.catch_up()
    assert len(world.said) == 1
    world.resume("r2")
    world.catch_up()
    world.end("r2", "Two.")
    assert world.said == [SUMMARY.format(summary="All of it.", task="B."), "Two."]


def test_what_was_said_to_a_run_before_its_first_answer_is_not_summed_up_unseen() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.end("r1", "One.")
    world.start("r2", "B.")
    world.start("s1", "And C?", "steer")
    compacting(world, "r2")
    world.end("r2", "Both.")
    assert world.said[1:] == ["And C?", "Both."]


def test_a_run_cancelled_amid_parallel_tools_leaves_a_conversation_that_any_model_accepts() -> None:
    """HIST-09 of the bug bank: two of three calls have no answer, and every later request fails."""
    world = World.new()
    world.start("r1", "Look.")
    acting = world.acting["r1"]
    acting.work()
    acting.work(calls=3)
    acting.work()
    acting.work("Seen.")
    assert len(acting.in_flight) == 2
    acting.cancel()
    world.catch_up()
    world.start("r2", "And now?")
    context = world.run("r2").context.messages
    assert [message.role for message in context] == ["user", "assistant", "tool", "tool", "tool"]
    assert context[2].content == "Seen."
    assert all(
        json.loads(message.content)["error"]["code"] == "outcome_unknown"
        for message in context[3:]
        if message.content
    )
    assert problems(world) == []
    world.end("r2", "Ok.")
    assert problems(world) == []


def test_a_session_that_is_closed_starts_nothing_more_and_lets_what_goes_on_end() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("r2", "B.", "enqueue")
    world.ask("r3", "C.", "interrupt")
    world.close()
    world.catch_up()
    assert (world.session.open_runs, world.session.turns) == ((), ())
    assert all(acting.run.is_terminal for acting in world.acting.values())


def test_what_was_said_too_late_is_not_said_any_more_when_the_session_is_closed() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.acting["r1"].work_to_the_end("One.")
    world.ask("s1", "B.", "steer")
    world.close()
    world.catch_up()
    assert (world.session.queue, world.session.active) == ((), None)


def test_nothing_goes_on_in_a_session_that_is_closed() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.acting["r1"].terminate()
    world.catch_up()
    world.close()
    with pytest.raises(SessionNotFound):
        world.resume("r1")


def test_messages_that_were_to_become_runs_do_not_keep_a_closed_session_open() -> None:
    world = World.new()
    world.start("r1", "A.")
    for run_id in ["s1", "s2"]:
        world.ask(run_id, "B.", "steer")
    world.acting["r1"].terminate()
    world.catch_up()
    assert [each.run_id for each in world.session.queue] == ["s2"]
    world.close()
    world.catch_up()
    assert (world.session.queue, world.session.active) == ((), None)


def test_runs_of_an_earlier_session_of_the_name_have_their_turns_first() -> None:
    world = World.new()
    world.session = world.session.adopting(("r1", "r2"), at(1))
    assert world.session.busy_with == "r1"
    begun = world.session.begun("r1", at(2))
    assert begun.turns == ("r2",)
    left = RunOutcome(run_id="r1", status="completed", messages=(UserMessage(content="Hi."),))
    assert begun.ended(left, at(3)).messages == left.messages


def test_a_session_is_idle_before_it_is_cleared() -> None:
    world = World.new()
    world.start("r1", "A.")
    with pytest.raises(SessionBusy, match="r1"):
        world.session.cleared()
    world.end("r1")
    cleared = world.session.cleared()
    assert (cleared.messages, cleared.latest) == ((), None)
    assert cleared.usage == world.session.usage != Usage()


def test_the_end_of_a_run_that_it_does_not_know_changes_nothing() -> None:
    session = World.new().session
    assert session.ended(RunOutcome(run_id="r9", status="completed"), at(5)) == session


def test_every_session_survives_json() -> None:
    world = World.new(max_tokens=10)
    world.start("r1", "A.", key="k")
    world.end("r1")
    world.start("r2", "B.")
    world.start("s1", "C.", "steer")
    world.ask("r3", "D.", "rollback")
    assert Session.model_validate_json(world.session.model_dump_json()) == world.session
