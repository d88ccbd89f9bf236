"""Drafts: one log that only grows, however its pieces come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runs.deltas import (
    DeltaBase,
    Draft,
    Position,
    Segment,
    StepRetrying,
    live_event_from_json,
    position_of,
    spoken,
)

KINDS = st.sampled_from(["text", "reasoning", "arguments"])
SEGMENTS = st.lists(
    st.builds(Segment, kind=KINDS, text=st.text(min_size=1, max_size=8), call=st.just(0)),
    max_size=12,
)


def log(draft: Draft, offset: int = 0) -> list[tuple[str, str]]:
    """Return a log as one kind and one character each."""
    return [(s.kind, each) for _, s in draft.after(offset) for each in s.text]


@given(SEGMENTS, st.data())
def test_pieces_may_come_twice_late_and_in_any_cut(
    said: list[Segment], data: st.DataObject
) -> None:
    whole = Draft()
    assert whole.extend(0, said)
    characters = [(s.kind, each) for s in said for each in s.text]
    assert log(whole) == characters
    again = Draft()
    for _ in range(data.draw(st.integers(0, 6))):
        begin = data.draw(st.integers(0, whole.length))
        end = data.draw(st.integers(begin, whole.length))
        piece = [Segment(kind=k, text=c) for k, c in characters[begin:end]]
        known = again.length
        fits = again.extend(begin, piece)
        assert fits is (begin <= known or not piece)
        assert log(again) == characters[: again.length]
        assert again.length == (max(known, end) if fits and piece else known)


@given(SEGMENTS, st.data())
def test_a_reader_that_goes_on_anywhere_gets_the_rest_once(
    said: list[Segment], data: st.DataObject
) -> None:
    draft = Draft()
    draft.extend(0, said)
    offset = data.draw(st.integers(0, draft.length))
    assert log(draft, offset) == log(draft)[offset:]
    base = DeltaBase(run_id="r", after=4, step=2, attempt=1)
    for begin, segment in draft.after(offset):
        delta = spoken(base, begin, segment)
        assert live_event_from_json(delta.model_dump_json()) == delta
        position = position_of(delta)
        assert position == Position(4, 2, 1, begin + len(segment.text))
        assert log(draft, position.offset) == log(draft)[position.offset :]


@given(st.builds(Position, *[st.integers(0, 10**9)] * 4))
def test_positions_are_read_as_they_are_written(position: Position) -> None:
    if not position.step:
        position = Position(position.after)
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    "text", ["", "x", "1:2", "1:2.3", "1:2.3.x", "-2", "1.5", "1:2.3.4.5", "٣"]
)
def test_what_is_no_position_is_none(text: str) -> None:
    assert Position.parse(text) is None


def test_a_new_attempt_is_a_place_without_offset() -> None:
    told = StepRetrying(run_id="r", after=4, step=2, attempt=3)
    assert str(position_of(told)) == "4:2.3.0"
