"""What a user says to the active Run, and where it is said when that has ended."""

from tests.sessions.world import World


def test_what_was_said_to_the_active_run_is_answered_by_it() -> None:
    world = World.new()
    world.start("r1", "A.")
    admission = world.start("s1", "And B?", "steer")
    assert (admission.how, admission.run_id) == ("steered", "r1")
    world.end("r1", "Both.")
    assert world.said == ["A.", "And B?", "Both."]
    assert "s1" not in world.acting


def test_what_was_said_too_late_becomes_a_run_that_its_key_leads_to() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("r2", "C.", "enqueue")
    world.acting["r1"].work_to_the_end("One.")
    assert world.start("s1", "B.", "steer", key="k").run_id == "r1"
    assert world.session.busy_with == "s1"
    assert world.start("s9", "B.", "steer", key="k") == world.start("s8", "B.", "steer", key="k")
    assert world.start("s7", "B.", "steer", key="k").run_id == "s1"
    for run_id in ["s1", "r2"]:
        world.end(run_id, "Ok.")
    assert world.said == ["A.", "One.", "B.", "Ok.", "C.", "Ok."]


def test_what_was_said_too_late_is_said_at_the_beginning_of_the_run_that_interrupts() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.acting["r1"].work_to_the_end("One.")
    world.ask("s1", "B.", "steer", key="k")
    world.ask("s2", "C.", "steer")
    world.ask("r2", "D.", "interrupt")
    world.ask("r3", "E.", "interrupt")
    world.catch_up()
    assert world.start("s9", "B.", "steer", key="k").run_id == "r3"
    world.end("r3", "Ok.")
    assert world.said == ["A.", "One.", "B.", "C.", "D.", "E.", "Ok."]
    assert world.session.runs == 2


def test_what_was_said_to_a_run_that_is_rolled_back_is_forgotten_with_it() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("s1", "Heard.", "steer")
    world.ask("s2", "Not heard.", "steer")
    world.start("r2", "B.", "rollback")
    world.end("r2", "Ok.")
    assert world.said == ["B.", "Ok."]


def test_a_run_that_is_being_stopped_hears_nothing_more() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.ask("r2", "B.", "interrupt")
    admission = world.ask("s1", "C.", "steer")
    assert (admission.how, admission.run_id) == ("queued", "s1")
    world.catch_up()
    for run_id in ["r2", "s1"]:
        world.end(run_id, "Ok.")
    assert world.said == ["A.", "B.", "Ok.", "C.", "Ok."]


def test_what_was_said_to_a_run_that_never_began_is_not_lost() -> None:
    world = World.new()
    world.start("r1", "A.")
    world.start("r2", "B.", "enqueue")
    world.acting["r1"].work_to_the_end("One.")
    world.acting["r2"].terminate()
    world.notice("r1")
    world.ask("s1", "C.", "steer")
    world.catch_up()
    assert world.session.busy_with == "s1"
    world.end("s1", "Ok.")
    assert world.said == ["A.", "One.", "C.", "Ok."]
    assert world.session.runs == 2
