"""What was seen of a chaos run: plain data, for `invariants` to judge.

Nothing here knows how the engine works inside: it is the provider's log, the tools' ledger,
the processes' lives and Temporal's histories.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from perdure.runs.contract import CALL_MODEL
from perdure.runs.run import Run
from tests.chaos.ledger import Line
from tests.chaos.plan import Plan
from tests.chaos.workers import Life


@dataclass(frozen=True)
class Request:
    """One request that the provider got."""

    run: str
    turn: int
    at: float
    """Seconds since 1970, like all times here."""
    pid: int
    messages: Sequence[dict[str, Any]]
    """Without the system message."""
    is_answer: bool
    """Whether a proper answer was sent to its end."""
    tokens: tuple[int, int] | None = None
    """Input and output tokens that were reported with it; unlike those of any other answer."""
    began: bool = False
    """Whether any of an answer was sent."""


@dataclass(frozen=True)
class StepTrace:
    """One Step as the history has it."""

    number: int
    is_model: bool
    execution: str
    event: int
    """Id of the history event of its end, or of its scheduling while it has none."""
    schedulings: int
    """How often the workflow asked for it; over all executions."""
    attempt: int = 0
    """The last one."""
    ended_at: float | None = None
    outcome: str = "open"
    """`completed`, `failed`, `timed_out` or `canceled`."""

    @property
    def place(self) -> str:
        """Where to look in the history."""
        return f"execution {self.execution}, event {self.event}"


@dataclass(frozen=True)
class RunTrace:
    """One Run at the end."""

    run_id: str
    run: Run | None
    """None when it could not even be read."""
    steps: Sequence[StepTrace] = ()
    continued_at: Sequence[float] = ()
    """When it continued as new."""
    transcript: Sequence[dict[str, Any]] = ()
    """Its messages, in wire form."""
    problems: Sequence[str] = ()
    """What its readers do not agree about: events, projection, query, digests."""


@dataclass(frozen=True)
class Evidence:
    """Everything that was seen."""

    plan: Plan
    happened: frozenset[str]
    """Ids of the planned faults that did happen."""
    runs: Sequence[RunTrace]
    requests: Sequence[Request]
    lines: Sequence[Line]
    lives: Sequence[Life]
    malformed: Sequence[str] = ()
    """What was wrong with requests."""
    starts_refused: int = 0
    """How often starting a Run was refused, and tried again: the server was away."""
    took_s: float = 0.0


ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "completed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "failed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "timed_out",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "canceled",
}


@dataclass
class Reading:
    """Folds the histories of one Run's executions into the traces of its Steps."""

    steps: dict[int, StepTrace] = field(default_factory=dict)
    continued_at: list[float] = field(default_factory=list)
    next_execution: str = ""
    _of_schedule: dict[int, int] = field(default_factory=dict)
    _attempts: dict[int, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin the next execution: its events are numbered anew."""
        self._of_schedule.clear()
        self.next_execution = ""

    def feed(self, execution: str, event: HistoryEvent) -> None:
        """Take the next event."""
        at = event.event_time.ToDatetime(UTC).timestamp()
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                asked = event.activity_task_scheduled_event_attributes
                number = int(asked.activity_id)
                self._of_schedule[event.event_id] = number
                before = self.steps.get(number)
                self.steps[number] = StepTrace(
                    number=number,
                    is_model=asked.activity_type.name == CALL_MODEL,
                    execution=execution,
                    event=event.event_id,
                    schedulings=1 + (before.schedulings if before else 0),
                )
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                begun = event.activity_task_started_event_attributes
                self._attempts[self._of_schedule[begun.scheduled_event_id]] = begun.attempt
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                self.continued_at.append(at)
                self.next_execution = (
                    event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
                )
            case kind if kind in ENDS:
                name = event.WhichOneof("attributes") or ""
                number = self._of_schedule[getattr(event, name).scheduled_event_id]
                begun_as = self.steps[number]
                self.steps[number] = StepTrace(
                    number=number,
                    is_model=begun_as.is_model,
                    execution=execution,
                    event=event.event_id,
                    schedulings=begun_as.schedulings,
                    attempt=self._attempts.get(number, 0),
                    ended_at=at,
                    outcome=ENDS[kind],
                )
