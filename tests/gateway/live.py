"""Live streams, made of the Events of a Run and of drafts that hypothesis draws."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from perdure.gateway.streaming.ag_ui import AgUi
from perdure.gateway.streaming.ag_ui.wire import Json
from perdure.runs.deltas import (
    DeltaBase,
    Draft,
    LiveEvent,
    Segment,
    SpokenBase,
    StepRetrying,
    ToolProgressed,
    spoken,
)
from perdure.runs.events import EndBase, Event, StepCompleted, StepFailed, StepStarted
from perdure.runs.run import Run
from perdure.runs.steps import ModelReply
from tests.runs.driving import simulations

BASE = {"run_id": "r1"}
LATER = st.sampled_from([0] * 7 + [1])
"""Attempts that were heard of behind the one that ended the Step: that is the truth then, too."""


def encoded(encoder: AgUi, items: Iterable[LiveEvent]) -> list[Json]:
    """Return a part of a stream as AG-UI events."""
    return [event for item in items for event in encoder.encode(item)]


def log_of(reply: ModelReply | None) -> list[Segment]:
    """Return what a model had said before it ended with this reply."""
    if reply is None:
        return [Segment(kind="text", text="Let me")]
    thought = reply.extra.get("reasoning_content", "Hm.")
    said = [Segment(kind="reasoning", text=thought), Segment(kind="text", text=reply.said or "")]
    for number, call in enumerate(reply.calls):
        about = {"call": number, "name": call.name, "call_id": f"x{number}"}
        said.append(Segment(kind="arguments", text=call.arguments, **about))
    return said


@st.composite
def drafts(draw: DrawFn, started: StepStarted, end: Event | None) -> list[LiveEvent]:
    """Draw what comes between the start of a Step and its end."""
    about = BASE | {"after": started.sequence_number, "step": started.step}
    if started.kind == "tool":
        progress = ToolProgressed(**about, attempt=1, message="Half.", fraction=0.5)
        return draw(st.sampled_from([[], [progress]]))
    reply = end.reply if isinstance(end, StepCompleted | StepFailed) else None
    assert reply is None or isinstance(reply, ModelReply)
    items: list[LiveEvent] = []
    for attempt in range(1, (1 if reply is None else reply.attempt) + draw(LATER) + 1):
        if attempt > 1 and draw(st.booleans()):
            items.append(StepRetrying(**about, attempt=attempt, reason="It was cut."))
        segments = log_of(reply)
        if draw(st.integers(0, 9)) == 9:
            segments.insert(draw(st.integers(0, 2)), Segment(kind="text", text="Wrong. "))
        if draw(st.integers(0, 9)) == 9:
            segments.append(Segment(kind="arguments", text="{}", call=len(segments), name="more"))
        items += draw(_pieces(about | {"attempt": attempt}, segments))
    return items


@st.composite
def _pieces(draw: DrawFn, about: dict[str, int | str], segments: list[Segment]) -> list[LiveEvent]:
    """Cut a log into deltas, and stop anywhere."""
    log, items, offset = Draft(), [], 0
    log.extend(0, segments)
    base = DeltaBase.model_validate(about)
    while offset < log.length and draw(st.integers(0, 19)) < 19:
        begin, segment = next(iter(log.after(offset)))
        piece = segment.text[: draw(st.integers(1, len(segment.text)))]
        items.append(spoken(base, begin, segment.model_copy(update={"text": piece})))
        # Now and then something is sent again, or is lost.
        offset = begin + len(piece) + draw(st.sampled_from([0] * 18 + [-1, 1]))
        offset = max(0, offset)
    return items


@st.composite
def streams(draw: DrawFn) -> list[LiveEvent]:
    """Draw the whole stream of a Run that was driven in any way."""
    simulation = draw(simulations())
    events = [draw(_attempted(each)) for each in simulation.events]
    if isinstance(events[-1], EndBase):
        events[-1] = events[-1].model_copy(update={"run": folded(events)})
    ends = {each.step: each for each in events if isinstance(each, StepCompleted | StepFailed)}
    items: list[LiveEvent] = []
    for event in events:
        items.append(event)
        if isinstance(event, StepStarted):
            items += draw(drafts(event, ends.get(event.step)))
    return items


@st.composite
def _attempted(draw: DrawFn, event: Event) -> Event:
    """Draw which attempt has ended a model Step."""
    reply = event.reply if isinstance(event, StepCompleted | StepFailed) else None
    if not isinstance(reply, ModelReply):
        return event
    attempt = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return event.model_copy(update={"reply": reply.model_copy(update={"attempt": attempt})})


def folded(items: Sequence[LiveEvent]) -> Run:
    """Return the Run after these items."""
    run: Run | None = None
    for item in items:
        if not isinstance(item, DeltaBase):
            run = Run.begin(item) if run is None else run.apply(item)  # type: ignore[arg-type]
    assert run is not None
    return run


def resumed(items: Sequence[LiveEvent], position: int) -> list[LiveEvent]:
    """Return what a reader gets who begins behind the last Event before a position.

    First comes what was said of the Step that runs, in one piece for each kind.
    """
    run, log = folded(items[:position]), Draft()
    latest: SpokenBase | None = None
    for item in items[:position]:
        if not isinstance(item, SpokenBase) or item.step != run.current_step:
            continue
        if latest is None or item.attempt > latest.attempt:
            log = Draft()
        latest = item
        about = item.model_dump(include={"call", "name", "call_id"})
        kind = {"output_text": "text", "reasoning": "reasoning"}.get(item.type.split(".")[1])  # type: ignore[attr-defined]
        log.extend(item.offset, [Segment(kind=kind or "arguments", text=item.delta, **about)])  # type: ignore[arg-type]
    known = [] if latest is None else [spoken(latest, at, each) for at, each in log.after(0)]
    return [*known, *items[position:]]
