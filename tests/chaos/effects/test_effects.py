"""The short form of the ledger under `kill -9`, and that the rules see what breaks them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.chaos.effects.book import Row
from tests.chaos.effects.points import EFFECTS, Doomed, Point, waves
from tests.chaos.effects.rules import kills, short, violations
from tests.chaos.effects.stage import Seen, struck
from tests.chaos.workers import Life

PLAN = waves(kills=10, together=15)


@pytest.fixture(scope="module")
async def seen(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder: Path = tmp_path_factory.mktemp("effects")
    return await struck(client, PLAN, folder, lanes=2)


async def test_no_effect_is_lost_or_repeated_wherever_a_worker_dies(seen: Seen) -> None:
    counted = kills(PLAN, seen)
    assert short(PLAN, counted) == {}
    assert all(sum(counted[effect, p.value] for p in Point) >= 10 for effect in EFFECTS)
    assert violations(PLAN, seen) == []


async def test_what_nobody_can_know_is_told_and_nothing_else(seen: Seen) -> None:
    for wave in PLAN:
        for doomed in wave:
            call = seen.runs[doomed.entry].tool_calls[0]
            # Before it was started, nothing was lost: even a call that is unsafe is executed.
            is_unknown = doomed.effect == "unsafe" and doomed.point is not Point.APPROVED
            assert (call.error is not None) is is_unknown, doomed.entry


def _with_rows(seen: Seen, doomed: Doomed, **changes: Any) -> Seen:
    """Return what is seen with the effect of a call once more, somewhat changed."""
    effect = next(r for r in seen.rows if r.entry == doomed.entry and r.kind == "effect")
    return replace(seen, rows=[*seen.rows, replace(effect, **changes)])


def _one(effect: str, point: Point = Point.AFTER_EFFECT) -> Doomed:
    return next(d for wave in PLAN for d in wave if (d.effect, d.point) == (effect, point))


async def test_the_rules_see_an_effect_too_many_or_under_another_key(seen: Seen) -> None:
    unsafe, keyed, read = _one("unsafe"), _one("keyed"), _one("read")
    assert violations(PLAN, _with_rows(seen, read)) == []
    assert violations(PLAN, _with_rows(seen, unsafe)) == [f"{unsafe.entry}: 2 effects"]
    assert violations(PLAN, _with_rows(seen, unsafe, kind="began")) == [
        f"{unsafe.entry}: 2 attempts"
    ]
    assert violations(PLAN, _with_rows(seen, keyed)) == [f"{keyed.entry}: 2 effects"]
    assert "keys" in violations(PLAN, _with_rows(seen, keyed, kind="began", key="new"))[0]


async def test_the_rules_see_an_effect_too_few_or_a_worker_that_did_not_die(seen: Seen) -> None:
    rows = [row for row in seen.rows if row.kind != "effect"]
    wrong = violations(PLAN, replace(seen, rows=rows))
    for doomed in (_one("read"), _one("keyed"), _one("unsafe", Point.APPROVED)):
        assert any(each.startswith(f"{doomed.entry}: ") for each in wrong)
    nobody_died = replace(seen, lives=[Life(life.pid, 0, life.born) for life in seen.lives])
    assert kills(PLAN, nobody_died) == Counter()
    assert len(short(PLAN, Counter())) == len(Point) * len(EFFECTS)
    assert any("no worker died" in each for each in violations(PLAN, nobody_died))


async def test_a_call_that_went_on_behind_its_point_was_not_killed_there(seen: Seen) -> None:
    doomed = _one("unsafe", Point.PICKED_UP)
    at = next(r for r in seen.rows if r.entry == doomed.entry and r.kind == "at")
    went_on = replace(seen, rows=[*seen.rows, Row("effect", doomed.entry, pid=at.pid)])
    missing = short(PLAN, kills(PLAN, went_on))
    assert missing == {("unsafe", Point.PICKED_UP.value): 1}
