"""Ids: which are allowed, and what they stand for."""

import pytest

from perdure.runs.ids import child_run_id, is_valid_id, step_of


@pytest.mark.parametrize("text", ["a", "run-1", "acme.agents:v2@prod", "9", "x" * 128])
def test_ids_that_are_visible_everywhere_are_allowed(text: str) -> None:
    assert is_valid_id(text)


@pytest.mark.parametrize("text", ["", "-a", ".a", "a b", "a/b", "ä", "a\n", "a'b", "x" * 129])
def test_ids_that_would_need_quoting_are_refused(text: str) -> None:
    assert not is_valid_id(text)


def test_a_step_number_is_the_activity_id() -> None:
    assert step_of("17") == 17


def test_a_child_run_is_named_after_the_step_that_it_is() -> None:
    assert child_run_id("run_1", 2) == "run_1.2"
    long = child_run_id("r" * 128, 2)
    assert is_valid_id(long)
    assert long == child_run_id("r" * 128, 2) != child_run_id("r" * 128, 3)
