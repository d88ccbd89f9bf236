"""What happens between the Events of a Run: words as they come, progress, new attempts.

Nothing here is durable or costs history. The Event that ends a Step is the truth; what was said of
that Step before it is a draft. One attempt of a model Step speaks in one log that only grows, so a
reader's place in it is one number.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from perdure.runs.events import Event
from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from perdure.runs.run import Run
from pydantic import Field, TypeAdapter

MAX_DRAFT_CHARS = 512 * 1024
"""Of one log: as much as an answer may have (`MAX_REPLY_BYTES`). What follows is not a delta."""

_POSITION = re.compile(r"(-1|\d{1,10})(?::(\d{1,10})\.(\d{1,10})\.(\d{1,10}))?", re.ASCII)


class Segment(Frozen):
    """A stretch of a log that is all of one kind."""

    kind: Literal["text", "reasoning", "arguments"]
    text: str
    call: int = Field(0, exclude_if=is_nothing)
    """Of arguments: which tool call of the turn, from 0."""
    name: str = Field("", exclude_if=is_nothing)
    """Of arguments: the tool that is called."""
    call_id: str = Field("", exclude_if=is_nothing)
    """Of arguments: as the provider names the call."""

    def continues(self, before: "Segment") -> bool:
        """Tell whether this is more of the same."""
        return (self.kind, self.call) == (before.kind, before.call)


class Draft:
    """The log of one attempt, as far as it is known. Lengths and offsets are in characters."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.length = 0

    def extend(self, offset: int, said: Iterable[Segment]) -> bool:
        """Take a piece of the log that begins at `offset`; what is known of it changes nothing.

        Returns:
            False when there is a gap before it: then it is left out, and so is what follows.
        """
        for segment in said:
            if offset > self.length:
                return False
            fresh = segment.text[self.length - offset :]
            offset += len(segment.text)
            if fresh:
                self._append(segment.model_copy(update={"text": fresh}))
        return True

    def _append(self, fresh: Segment) -> None:
        self.length += len(fresh.text)
        if self.segments and fresh.continues(self.segments[-1]):
            last = self.segments.pop()
            fresh = fresh.model_copy(update={"text": last.text + fresh.text})
        self.segments.append(fresh)

    def after(self, offset: int) -> Iterator[tuple[int, Segment]]:
        """Yield the pieces behind an offset, each with the offset at which it begins."""
        start = 0
        for segment in self.segments:
            end = start + len(segment.text)
            if end > offset:
                begin = max(start, offset)
                yield begin, segment.model_copy(update={"text": segment.text[begin - start :]})
            start = end

    def text(self) -> str:
        """Return what was said to the user."""
        return "".join(each.text for each in self.segments if each.kind == "text")


class Position(NamedTuple):
    """How far a reader is: behind an Event and, within a Step that runs, in the log of an attempt.

    Written `42` or `42:3.1.240`: it is the id of what is sent to followers.
    """

    after: int = -1
    """Sequence number of the last Event that the reader has."""
    step: int = 0
    attempt: int = 0
    offset: int = 0

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Return the position that a text names; none when it is no position."""
        found = _POSITION.fullmatch(text.strip())
        return cls(*(int(part or 0) for part in found.groups())) if found else None

    def __str__(self) -> str:
        within = f":{self.step}.{self.attempt}.{self.offset}" if self.step else ""
        return f"{self.after}{within}"


class DeltaBase(Frozen):
    """What everything says that is not durable."""

    run_id: str
    after: int
    """Sequence number of the Event that it follows."""
    step: int
    attempt: int
    """From 1. With another one, the Step starts over: drop what came of it before."""

    @property
    def position(self) -> Position:
        """Where a reader is that has this."""
        return Position(self.after, self.step, self.attempt)


class SpokenBase(DeltaBase):
    """A piece of what a model says."""

    offset: int
    """Characters that the attempt had said before, of all kinds together."""
    delta: str

    @property
    def position(self) -> Position:
        """Where a reader is that has this."""
        return super().position._replace(offset=self.offset + len(self.delta))


class OutputTextDelta(SpokenBase):
    """More of the text that a model writes."""

    type: Literal["run.output_text.delta"] = "run.output_text.delta"


class ReasoningDelta(SpokenBase):
    """More of what a model thinks, where its provider shows it."""

    type: Literal["run.reasoning.delta"] = "run.reasoning.delta"


class ArgumentsDelta(SpokenBase):
    """More of the arguments of a tool call, as JSON text that is not whole yet."""

    type: Literal["run.tool_call.arguments.delta"] = "run.tool_call.arguments.delta"
    call: int
    """Which tool call of the turn, from 0."""
    name: str
    call_id: str = ""
    """As the provider names the call; the Event that ends the Step may name it otherwise."""


class ToolProgressed(DeltaBase):
    """How far a tool says it is; only the latest counts."""

    type: Literal["run.tool.progress"] = "run.tool.progress"
    message: str
    fraction: float | None = None
    """How much of its work is done, from 0 to 1, where it says so."""


class StepRetrying(DeltaBase):
    """A new attempt of a Step begins, or will: what came of the one before is void."""

    type: Literal["run.step.retrying"] = "run.step.retrying"
    reason: str = ""
    """Why the attempt before it ended."""
    at: datetime | None = None
    """When it begins; none when it has begun."""


Delta = Annotated[
    OutputTextDelta | ReasoningDelta | ArgumentsDelta | ToolProgressed | StepRetrying,
    Field(discriminator="type"),
]


class Reset(Frozen):
    """The reader's position can't be continued from: here is the whole Run instead."""

    type: Literal["run.reset"] = "run.reset"
    run_id: str
    reason: Literal["events_expired", "unknown_position"]
    run: Run
    """As it stands; what follows comes after its `last_event`."""

    @property
    def position(self) -> Position:
        """Where a reader is that has this."""
        return Position(self.run.last_event)


LiveEvent = Event | Delta | Reset
"""Whatever a follower gets."""


def spoken(base: DeltaBase, offset: int, segment: Segment) -> Delta:
    """Return the delta that a piece of a log is."""
    said = base.model_dump(include={"run_id", "after", "step", "attempt"})
    said |= {"offset": offset, "delta": segment.text}
    if segment.kind == "text":
        return OutputTextDelta(**said)
    if segment.kind == "reasoning":
        return ReasoningDelta(**said)
    return ArgumentsDelta(**said, call=segment.call, name=segment.name, call_id=segment.call_id)


def position_of(item: LiveEvent) -> Position:
    """Return where a reader is that has this."""
    if isinstance(item, DeltaBase | Reset):
        return item.position
    return Position(item.sequence_number)


def live_event_from_json(text: str | bytes) -> LiveEvent:
    """Read whatever a follower got.

    Raises:
        pydantic.ValidationError: When it is none.
    """
    found: LiveEvent = _LIVE.validate_json(text)
    return found


_LIVE: TypeAdapter[LiveEvent] = TypeAdapter(LiveEvent)
