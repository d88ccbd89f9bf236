"""One reader's place in a live Run, and what comes next for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.runs.deltas import (
    Delta,
    DeltaBase,
    LiveEvent,
    Position,
    StepRetrying,
    ToolProgressed,
    spoken,
)

if TYPE_CHECKING:
    from perdure.client.live.run import LiveRun, UnderWay


@dataclass
class _Seen:
    """What the reader has of a Step that runs."""

    attempt: int = 1
    offset: int = 0
    progress: tuple[str, float | None] = ("", None)


class Reader:
    """A place in a live Run.

    Args:
        position: What the reader has.
    """

    def __init__(self, position: Position) -> None:
        self._after = position.after
        self._seen: dict[int, _Seen] = {}
        if position.step:
            self._seen[position.step] = _Seen(position.attempt, position.offset)

    def next(self, live: "LiveRun") -> LiveEvent | None:
        """Return what comes next, none when there is nothing yet.

        Events go before deltas: a delta never comes before the Event that starts its Step, nor
        behind the one that ends it.
        """
        event = live.after(self._after)
        if event is not None:
            self._after = event.sequence_number
            return event
        for number in sorted(live.under_way):
            delta = self._delta(live.run_id, number, live.under_way[number])
            if delta is not None:
                return delta
        return None

    def _delta(self, run_id: str, number: int, step: "UnderWay") -> Delta | None:
        seen = self._seen.setdefault(number, _Seen())
        whose = DeltaBase(run_id=run_id, after=self._after, step=number, attempt=step.attempt)
        fields = whose.model_dump()
        if step.attempt != seen.attempt:
            self._seen[number] = _Seen(step.attempt)
            return StepRetrying(**fields, reason=step.reason, at=step.begins_at)
        for offset, segment in step.draft.after(seen.offset):
            seen.offset = offset + len(segment.text)
            return spoken(whose, offset, segment)
        progress = step.message, step.fraction
        if progress != seen.progress:
            seen.progress = progress
            return ToolProgressed(**fields, message=step.message, fraction=step.fraction)
        return None
