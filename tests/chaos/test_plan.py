"""A plan is a function of its seed and holds what was asked for."""

from collections import Counter

import pytest

from tests.chaos.plan import QUICK, TOOL_KILLS, Fault, Size, planned


def test_the_same_seed_gives_the_same_plan() -> None:
    assert planned(5, QUICK) == planned(5, QUICK)
    assert planned(5, QUICK) != planned(6, QUICK)


@pytest.mark.parametrize("seed", range(20))
def test_even_the_short_form_has_every_kind_of_fault(seed: int) -> None:
    assert {fault.kind for fault in planned(seed, QUICK).faults} == set(Fault)


@pytest.mark.parametrize("steps", [3, 8, 20])
def test_runs_have_the_steps_that_were_asked_for(steps: int) -> None:
    plan = planned(1, Size(runs=30, steps=steps, long_every=0))
    assert {len(run.calls) + len(run.turns) + 1 for run in plan.runs} == {steps}
    assert all(turn for run in plan.runs for turn in run.turns)


def test_the_long_form_kills_at_each_named_point_fifty_times() -> None:
    counts = Counter(fault.kind for fault in planned(1, Size(runs=1000)).faults)
    few = {kind: n for kind, n in counts.items() if kind.startswith("kill") and n < 50}
    assert few == {}


def test_no_step_meets_more_than_it_has_attempts_for() -> None:
    faults = planned(3, Size(runs=300)).faults
    assert max(Counter((f.run, f.turn) for f in faults if f.turn).values()) <= 2
    assert max(Counter((f.run, f.call) for f in faults if f.kind in TOOL_KILLS).values()) == 1


def test_ids_are_unique() -> None:
    ids = [fault.id for fault in planned(3, Size(runs=300)).faults]
    assert len(ids) == len(set(ids))
