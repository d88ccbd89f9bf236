"""What holds at every moment, whatever was asked of a Session and whatever happened."""

import json
from datetime import timedelta

from perdure.runs.messages import UserMessage, wire
from perdure.runs.status import RunStatus
from perdure.sessions.contract import report
from tests.harness.transcript_rules import check_request
from tests.sessions.ledger import Ledger
from tests.sessions.world import World


def never_two_runs_are_going_on(world: World, ledger: Ledger) -> None:
    running = [r for r in world.open_runs if world.run(r).status is RunStatus.RUNNING]
    assert len(running) <= 1
    assert not running or world.session.active is not None
    assert not running or running == [world.session.active and world.session.active.run_id]


def problems(world: World) -> list[str]:
    """Return what a provider would not accept in the conversation."""
    messages = [json.loads(wire(each)) for each in world.session.messages]
    return check_request({"messages": messages})


def the_conversation_is_valid(world: World, ledger: Ledger) -> None:
    assert not world.session.messages or problems(world) == []


def everything_is_said_where_it_must_be(world: World, ledger: Ledger) -> None:
    texts = [m.content for m in world.session.messages if isinstance(m, UserMessage)]
    said = [text for text in texts if text.startswith("u")]
    assert len(set(said)) == len(said)
    must = {e.text for e in ledger.asked.values() if e.is_said}
    active = world.session.active
    if active is not None and active.resumes is not None:
        must -= set(said[-1:])
    assert must <= set(said), must - set(said)
    never = {e.text for e in ledger.asked.values() if e.is_said is False}
    assert not never & set(said)


def everything_is_said_in_the_order_of_the_turns(world: World, ledger: Ledger) -> None:
    asked = {each.text: each for each in ledger.asked.values()}
    texts = [m.content for m in world.session.messages if isinstance(m, UserMessage)]
    said = [asked[text] for text in texts if text in asked and asked[text].turn is not None]
    started = {ledger.asked[run_id].text for run_id in world.begun}
    order = []
    for each in said:
        is_heard = each.how == "steered" and each.text not in started
        heard_by = each.to != ""
        rank = 1 if each.text in started else 2 if is_heard and heard_by else 0
        order.append((each.turn, rank, 0 if rank == 2 else each.number))
    assert order == sorted(order)


def usage_is_the_sum_over_the_runs(world: World, ledger: Ledger) -> None:
    assert world.session.usage.total_tokens == sum(ledger.used.values())


def runs_are_counted_that_had_their_turn(world: World, ledger: Ledger) -> None:
    begun = {r for r in world.begun if _had_turn(world, r)}
    assert world.session.runs == len(begun)


def _had_turn(world: World, run_id: str) -> bool:
    active = world.session.active
    is_active = active is not None and active.run_id == run_id
    return is_active or world.run(run_id).started_at is not None


def no_more_wait_than_are_allowed(world: World, ledger: Ledger) -> None:
    steered = {r for r, e in ledger.asked.items() if e.how == "steered"}
    waiting = [each for each in world.session.queue if each.run_id not in steered]
    most = world.session.settings.max_queued or 0
    assert len(waiting) <= most
    assert len(report(world.session).queue) <= most + 1 + len(steered)


def keys_are_kept_for_a_day(world: World, ledger: Ledger) -> None:
    kept = {each.key: each for each in world.session.keys}
    assert len(kept) == len(world.session.keys)
    for key, (text, ids, since) in ledger.keys.items():
        if world.now - since < timedelta(hours=25):
            assert kept[key].digest == text
            assert kept[key].run_id in ids


def every_open_run_can_be_reached(world: World, ledger: Ledger) -> None:
    known = {*world.session.open_runs, *world.starting}
    told = {signal.run_id for signal in world.signals}
    for run_id in world.open_runs:
        is_told = run_id in told or world.run(run_id).cancel is not None
        assert run_id in known or is_told


ALWAYS = (
    never_two_runs_are_going_on,
    the_conversation_is_valid,
    everything_is_said_where_it_must_be,
    everything_is_said_in_the_order_of_the_turns,
    usage_is_the_sum_over_the_runs,
    runs_are_counted_that_had_their_turn,
    no_more_wait_than_are_allowed,
    keys_are_kept_for_a_day,
    every_open_run_can_be_reached,
)
