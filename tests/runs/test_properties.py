"""What holds for every Run, whatever models and tools reply and whenever it is stopped.

`simulations` takes every decision and folds every Event, so that none of them may raise, and
that the transcript is valid before each model call, is checked by each test here.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.runs import pages
from perdure.runs.contract import RunPage, RunPageRequest, TranscriptPageRequest
from perdure.runs.errors import IllegalEvent
from perdure.runs.events import event_from_json
from perdure.runs.messages import AssistantMessage, Message, wire
from perdure.runs.run import Run
from perdure.runs.steps import Mark
from perdure.runs.transcript import SUMMARY, advance, messages, since_last_answer
from perdure.runs.usage import Usage
from tests.runs.building import moves
from tests.runs.simulation import Simulation, assert_transcript_is_valid, folded, simulations

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
            again = len(SUMMARY) + len(run.input_message) if run.compaction else 0
            assert said <= run.transcript_chars + again


@simulated
@given(SIMULATIONS)
def test_the_status_report_says_what_the_run_says(simulation: Simulation) -> None:
    run = simulation.run
    report = pages.status_report(run)
    assert report.model_dump() == {name: getattr(run, name) for name in type(report).model_fields}
