"""What holds for every Run, whatever models and tools reply and whenever it is stopped.

`simulations` takes every decision and folds every Event, so that none of them may raise, and
that the transcript is valid before each model call, is checked by each test here.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.runs import pages, steering
from perdure.runs.contract import (
    MessageRequest,
    PauseRequest,
    RunPage,
    RunPageRequest,
    TranscriptPageRequest,
)
from perdure.runs.errors import ErrorCode, IllegalEvent, error
from perdure.runs.events import MessageAccepted, event_from_json
from perdure.runs.files import is_shown
from perdure.runs.messages import AssistantMessage, Message, UserMessage, wire
from perdure.runs.run import Run
from perdure.runs.steps import Mark
from perdure.runs.transcript import (
    SUMMARY,
    TOOL_FILES,
    advance,
    messages,
    since_last_answer,
    task,
)
from perdure.runs.usage import Usage
from tests.harness.engine import without_times
from tests.runs.building import moves
from tests.runs.driving import simulations
from tests.runs.simulation import Simulation, assert_transcript_is_valid, folded

SIMULATIONS = simulations()
PAGE_BYTES = st.sampled_from([1, 600, 1500, 4000, 1 << 20])
IGNORED: dict[str, Any] = {"complete": True}

simulated = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@simulated
@given(SIMULATIONS)
def test_events_and_steps_are_numbered_without_a_gap(simulation: Simulation) -> None:
    numbers = [event.sequence_number for event in simulation.events]
    assert numbers == list(range(len(numbers)))
    assert simulation.run.last_event == numbers[-1]
    steps = [step.number for step in simulation.run.steps]
    assert steps == list(range(1, len(steps) + 1))


@simulated
@given(SIMULATIONS)
def test_a_terminal_event_is_the_last_unless_the_run_is_resumed(simulation: Simulation) -> None:
    for event, following in pairwise(simulation.events):
        assert not hasattr(event, "stop_reason") or following.type == "run.resumed"
    assert hasattr(simulation.events[-1], "stop_reason") == simulation.run.is_terminal
    if not simulation.run.is_terminal:
        return
    for event in (*moves(simulation.run).values(), *simulation.events):
        if event.type == "run.resumed":
            continue
        with pytest.raises(IllegalEvent):
            simulation.run.apply(event.model_copy(update=simulation.run.stamp(simulation.now)))


@simulated
@given(SIMULATIONS)
def test_no_event_can_happen_twice(simulation: Simulation) -> None:
    before = simulation.run.model_dump_json()
    for event in simulation.events:
        with pytest.raises(IllegalEvent):
            simulation.run.apply(event)
    assert simulation.run.model_dump_json() == before


@simulated
@given(SIMULATIONS)
def test_an_ended_run_is_whole(simulation: Simulation) -> None:
    run = simulation.run
    if not run.is_terminal:
        return
    assert_transcript_is_valid(run)
    assert run.current_step is None
    assert run.stop_reason is not None
    assert run.completed_at is not None
    assert all(step.status != "running" for step in run.steps)
    assert all(call.is_settled and call.result is not None for call in run.tool_calls)
    assert (run.error is None) == (run.status in ("completed", "cancelled"))


@simulated
@given(SIMULATIONS)
def test_totals_are_the_sum_of_the_steps(simulation: Simulation) -> None:
    total = Usage()
    for step in simulation.run.steps[simulation.run.copied_steps :]:
        total = total.plus_call(step.usage) if step.usage else total
        if step.kind == "tool" and step.status != "running":
            total = total.plus_tool_call()
        if step.child_usage is not None:
            total = total.plus_run(step.child_usage)
    used = simulation.run.usage
    assert used.model_copy(update=IGNORED) == total.model_copy(update=IGNORED)
    assert total.complete or not used.complete
    assert simulation.run.total_tokens == total.total_tokens


@simulated
@given(SIMULATIONS)
def test_every_event_and_every_run_survives_json(simulation: Simulation) -> None:
    for event in simulation.events:
        assert event_from_json(event.model_dump_json()) == event
    for count in range(1, len(simulation.events) + 1):
        run = folded(simulation.events[:count])
        assert Run.model_validate_json(run.model_dump_json()) == run


@simulated
@given(SIMULATIONS, st.data())
def test_any_prefix_of_the_events_and_the_rest_make_the_whole(
    simulation: Simulation, data: st.DataObject
) -> None:
    """A continue-as-new carries the Run of any prefix, as JSON."""
    cut = data.draw(st.integers(1, len(simulation.events)))
    carried = Run.model_validate_json(folded(simulation.events[:cut]).model_dump_json())
    assert folded(simulation.events[cut:], carried) == simulation.run


ARRIVALS = ("run.step.completed", "run.step.failed", "run.cancel_requested")
TOLD = (
    "run.action.resolved",
    "run.message.accepted",
    "run.pause_requested",
    "run.unpause_requested",
    "run.limits.raised",
)


@simulated
@given(SIMULATIONS)
def test_what_people_say_and_what_arrives_with_it_may_come_in_either_order(
    simulation: Simulation,
) -> None:
    """The workflow hears updates and signals first, wherever the history has them."""
    for number, (one, other) in enumerate(pairwise(simulation.events), start=1):
        types = {one.type, other.type}
        if types.isdisjoint(TOLD) or types.isdisjoint(ARRIVALS):
            continue
        before = folded(simulation.events[: number - 1])
        swapped = before
        for event in (other, one):
            swapped = swapped.apply(event.model_copy(update=swapped.stamp(simulation.now)))
        assert without_times(swapped) == without_times(before.apply(one).apply(other))


@simulated
@given(SIMULATIONS, st.data())
def test_what_arrives_does_not_decide_whether_a_message_or_a_pause_is_taken(
    simulation: Simulation, data: st.DataObject
) -> None:
    request = MessageRequest(text="Hear!", message_id=f"m{data.draw(st.integers(0, 5))}")
    runs = [folded(simulation.events[:n]) for n in range(1, len(simulation.events) + 1)]
    for event, (before, after) in zip(simulation.events[1:], pairwise(runs), strict=True):
        if event.type in ARRIVALS:
            for taken in (
                lambda run: steering.message_accepted(run, simulation.now, request),
                lambda run: steering.pause_requested(run, simulation.now, PauseRequest()),
                lambda run: steering.unpause_requested(run, simulation.now),
            ):
                assert (taken(before) is None) == (taken(after) is None)


@simulated
@given(SIMULATIONS)
def test_every_message_is_in_the_transcript_until_it_is_summed_up(simulation: Simulation) -> None:
    run = simulation.run
    accepted = [e.message_id for e in simulation.events if isinstance(e, MessageAccepted)]
    kept = [each.message_id for each in run.follow_ups if each.message_id]
    assert kept[len(kept) - len(accepted) :] == accepted
    assert len(set(kept)) == len(kept)
    if run.compaction is None and run.current_step is None:
        users = [each for each in messages(run) if isinstance(each, UserMessage)]
        said = [(each.content, each.files) for each in users if each.content != TOOL_FILES]
        opening = sum(isinstance(each, UserMessage) for each in run.context.messages) + 1
        unfit = error(ErrorCode.OUTPUT_INVALID).message
        own = [each for each in said[opening:] if each != (unfit, ())]
        assert said[opening - 1][1] == run.input_files
        assert own == [(each.words, each.files) for each in run.follow_ups]
        shown = [file for each in users if each.content == TOOL_FILES for file in each.files]
        assert shown == [f for call in run.tool_calls for f in call.files if is_shown(f)]


@simulated
@given(SIMULATIONS, PAGE_BYTES)
def test_pages_of_any_size_join_to_the_same_run(simulation: Simulation, max_bytes: int) -> None:
    found: list[RunPage] = []
    after: int | None = 0
    while after is not None:
        request = RunPageRequest(after_step=after, max_bytes=max_bytes)
        page = pages.run_page(simulation.run, request)
        found.append(RunPage.model_validate_json(page.model_dump_json()))
        after = page.next_after_step
    assert pages.joined(found) == simulation.run
    assert all(page.run.steps for page in found) or not simulation.run.steps
    if max_bytes == 1:
        assert len(found) == max(1, len(simulation.run.steps))


@simulated
@given(SIMULATIONS, PAGE_BYTES)
def test_transcript_pages_of_any_size_join_to_the_same_transcript(
    simulation: Simulation, max_bytes: int
) -> None:
    found: list[Message] = []
    start: int | None = 0
    while start is not None:
        request = TranscriptPageRequest(start=start, max_bytes=max_bytes)
        page = pages.transcript_page(simulation.run, request)
        assert len(page.messages) == 1 or sum(len(wire(m)) for m in page.messages) <= max_bytes
        found += page.messages
        start = page.next_start
    assert found == list(messages(simulation.run))


@simulated
@given(SIMULATIONS)
def test_the_marks_of_the_answers_are_those_of_the_messages(simulation: Simulation) -> None:
    marks = [Mark()]
    for message in messages(simulation.run):
        marks.append(advance(marks[-1], wire(message)))
    compacted = simulation.run.compaction.step if simulation.run.compaction else 0
    for step in simulation.run.steps[compacted:]:
        if step.kind == "model" and step.status == "completed" and step.purpose != "compact":
            assert step.mark is not None
            assert step.mark == marks[step.mark.count]


@simulated
@given(SIMULATIONS)
def test_what_the_model_is_told_anew_is_the_end_of_the_transcript(simulation: Simulation) -> None:
    run = simulation.run
    if any(not call.is_settled for call in run.tool_calls):
        return
    mark, new = since_last_answer(run)
    assert tuple(messages(run, mark.count)) == new
    if mark != Mark():
        assert not any(isinstance(each, AssistantMessage) for each in new)
    elif run.compaction is None:
        assert not any(
            isinstance(each, AssistantMessage) for each in new[len(run.context.messages) :]
        )


@simulated
@given(SIMULATIONS)
def test_all_text_of_the_transcript_is_counted_against_its_limit(simulation: Simulation) -> None:
    for count in range(1, len(simulation.events) + 1):
        run = folded(simulation.events[:count])
        if not run.is_terminal:
            said = sum(len(message.content or "") for message in messages(run))
            again = len(SUMMARY) + len(task(run)) if run.compaction else 0
            assert said <= run.transcript_chars + again


@simulated
@given(SIMULATIONS)
def test_the_status_report_says_what_the_run_says(simulation: Simulation) -> None:
    run = simulation.run
    report = pages.status_report(run)
    assert dict(report) == {name: getattr(run, name) for name in type(report).model_fields}
