"""The Run, and the only way it changes: `Run.apply(event)`.

The rules of this file: what a Run is, which Event may follow which, and what each does to it
(`step_changes` and `endings` hold the longer ones). Nothing reads a clock, an id source or the
outside; an Event that can't follow raises `IllegalEvent` and changes nothing (a Run is
immutable). Two readers fold the same Events with it: the workflow, and every client that
projects the workflow's history.
"""

from datetime import datetime, timedelta
from typing import Any, TypeVar, assert_never

from perdure.runs import gate
from perdure.runs.beginnings import begun, given, shared
from perdure.runs.endings import ended, resumed, stopped
from perdure.runs.errors import IllegalEvent, RunError
from perdure.runs.events import (
    ActionRequired,
    ActionResolved,
    Cancel,
    CancelRequested,
    Event,
    HandedOff,
    LimitsRaised,
    MessageAccepted,
    PauseRequested,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
    RunTimedOut,
    RunUnpaused,
    StepCompleted,
    StepFailed,
    StepStarted,
    UnpauseRequested,
)
from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.outputs import value_of
from perdure.runs.policy import is_nothing
from perdure.runs.start import Compaction, ContextBundle, FollowUp
from perdure.runs.status import TRANSITIONS, RunStatus, StopReason, WaitingOn
from perdure.runs.step_changes import handed_off, message_accepted, step_ended, step_started
from perdure.runs.steps import Step, ToolCall
from perdure.runs.tracing import TraceContext, span_of, trace_of
from perdure.runs.usage import Usage
from pydantic import Field, computed_field

T = TypeVar("T")


class Run(Frozen):
    """One whole task of an agent."""

    run_id: str
    session_id: str | None = None
    agent: str
    first_agent: str | None = None
    """The agent that the Run began as, where it was handed over since."""
    status: RunStatus = RunStatus.PENDING
    stop_reason: StopReason | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last_progress_at: datetime
    input_message: str
    input_files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    told_input: str | None = None
    """What the model reads instead, where a check of the agent changed it."""
    model: str | None = None
    """The model asked for, where that is not the agent's own: chosen, or fallen back to."""
    chosen_model: str | None = Field(None, exclude_if=is_nothing)
    """The model that the Run was started with, where it names one: its fallbacks come after it."""
    context: ContextBundle = ContextBundle()
    steps: tuple[Step, ...] = ()
    current_step: int | None = None
    """The Step that runs (the latest of several), none between Steps."""
    turn: int = 0
    output: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    waiting_on: WaitingOn | None = None
    error: RunError | None = None
    cancel: Cancel | None = None
    """Why the Run is being stopped, or was."""
    pause_reason: str | None = None
    """Why a person paused the Run, be it empty; none when nobody did."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    on_limit: OnLimit | None = None
    on_unknown: OnUnknown | None = None
    budget: Limits = Limits()
    """What is left of its Session's limits; holds beside its own."""
    context_window: int | None = None
    """Tokens that the model can read; unknown when none."""
    settled: bool = False
    """Whether limits and timeouts are completed with the agent's, by the first model call."""
    limit_reached: RunError | None = None
    """The limit because of which the model was asked to conclude."""
    follow_ups: tuple[FollowUp, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    """Each replaced what it sums up; the messages are still in the Steps."""
    metadata: dict[str, str] = Field(default_factory=dict)
    parent_run_id: str | None = None
    depth: int = 0
    """Runs above this one."""
    output_schema: dict[str, Any] | None = None
    """JSON schema of the output, where the caller gave one."""
    output_parsed: Any = None
    """The output as the JSON value that it is, where a schema was asked for."""
    actions_asked: int = 0
    """How often people were asked to decide something."""
    forked_from: str | None = None
    part_of: TraceContext | None = Field(None, exclude_if=is_nothing)
    """The span that started the Run, of another Run or another program."""
    copied_steps: int = 0
    """The first Steps, which a fork took over: not executed, not counted in `usage`."""
    resumed_step: int = 0
    """Steps there were when the Run was last resumed, or forked: their failures are past."""
    resumed_at: datetime | None = None
    last_event: int = 0
    """Sequence number of the latest Event."""
    transcript_chars: int = 0
    """Text in all messages so far, counted against `MAX_TRANSCRIPT_BYTES`."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Input plus output tokens of all model calls."""
        return self.usage.total_tokens

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_cost(self) -> float:
        """USD, of the model calls whose price is known."""
        return self.usage.cost

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_duration_ms(self) -> int | None:
        """From the first worker's start to the end; none while the Run is open."""
        if self.completed_at is None:
            return None
        took = self.completed_at - (self.started_at or self.created_at)
        return int(took.total_seconds() * 1000)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_terminal(self) -> bool:
        """True when the Run has ended; a client that meets an unknown status asks this."""
        return self.status.is_terminal

    @computed_field  # type: ignore[prop-decorator]
    @property
    def trace_id(self) -> str:
        """Of the Trace that the Run is in: 32 hexadecimal digits."""
        return trace_of(self.run_id, self.part_of)

    @property
    def span(self) -> TraceContext:
        """The span that the Run is: its Steps are its children."""
        sampled = self.part_of.sampled if self.part_of is not None else None
        span_id = span_of(self.run_id, self.resumed_at)
        return TraceContext(trace_id=self.trace_id, span_id=span_id, sampled=sampled)

    @property
    def compaction(self) -> Compaction | None:
        """The latest compaction: the transcript begins with its summary."""
        return self.compactions[-1] if self.compactions else None

    @property
    def deadline(self) -> datetime | None:
        """When the Run's time is up; none when it has no limit, or has not started."""
        began = self.resumed_at or self.started_at
        if began is None or self.timeouts.run_s is None:
            return None
        return began + timedelta(seconds=self.timeouts.run_s)

    def output_as(self, kind: type[T]) -> T:
        """Return the output as a value of a type that pydantic knows, such as a pydantic model.

        Raises:
            OutputInvalid: When the Run has no output, or one that is not of that type.
        """
        return value_of(self, kind)

    def stamp(self, at: datetime) -> dict[str, Any]:
        """Return what the next Event of this Run says before anything else: whose, which, when."""
        return {"run_id": self.run_id, "sequence_number": self.last_event + 1, "at": at}

    @staticmethod
    def begin(event: Event) -> "Run":
        """Make the Run that `run.queued` announces.

        Raises:
            IllegalEvent: When it is another Event, or not numbered 0.
        """
        if not isinstance(event, RunQueued) or event.sequence_number != 0:
            raise IllegalEvent(f"A Run begins with run.queued numbered 0, not {event.type!r}.")
        run = Run(**given(event))
        return run.model_copy(update=shared(run, event.start.share))

    def apply(self, event: Event) -> "Run":
        """Return the Run after `event`; this one stays as it is.

        Raises:
            IllegalEvent: When the Event can't follow: wrong Run or number, an end after an
                end, a Step that was never started or has ended.
        """
        if event.run_id != self.run_id or event.sequence_number != self.last_event + 1:
            raise IllegalEvent(
                f"Run {self.run_id!r} expects its event {self.last_event + 1}, "
                f"not number {event.sequence_number} of {event.run_id!r}."
            )
        if self.status.is_terminal and not isinstance(event, RunResumed):
            raise IllegalEvent(
                f"Run {self.run_id!r} is {self.status}; {event.type!r} can't follow."
            )
        return self.model_copy(
            update=self._changes(event)
            | {"last_event": event.sequence_number, "last_progress_at": event.at}
        )

    def _changes(self, event: Event) -> dict[str, Any]:  # noqa: C901 - one case an Event
        match event:
            case RunQueued():
                raise IllegalEvent(f"Run {self.run_id!r} was already queued.")
            case RunStarted():
                return self._to(RunStatus.RUNNING) | begun(self, event)
            case StepStarted():
                return step_started(self, event)
            case StepCompleted():
                return step_ended(self, event, event.reply, event.reply.error)
            case StepFailed():
                return step_ended(self, event, event.reply, event.error)
            case CancelRequested():
                return {"cancel": stopped(self.cancel, event)}
            case ActionRequired():
                return gate.required(self, event.actions)
            case ActionResolved():
                return gate.resolved(self, event.action_id, event.resolution)
            case HandedOff():
                return handed_off(self, event)
            case RunPaused():
                return {"waiting_on": event.waiting_on}
            case RunUnpaused():
                return {"waiting_on": gate.waiting(self)}
            case MessageAccepted():
                return message_accepted(self, event)
            case PauseRequested():
                return {"pause_reason": event.reason}
            case UnpauseRequested():
                return {"pause_reason": None}
            case LimitsRaised():
                return {"limits": event.limits.over(self.limits)}
            case RunResumed():
                return self._to(RunStatus.RUNNING) | resumed(self, event)
            case RunCompleted():
                return self._to(RunStatus.COMPLETED) | ended(self, event, event.output)
            case RunFailed():
                return self._to(RunStatus.FAILED) | ended(self, event, event.output)
            case RunCancelled():
                return self._to(RunStatus.CANCELLED) | ended(self, event)
            case RunTimedOut():
                return self._to(RunStatus.TIMEOUT) | ended(self, event)
            case _:
                assert_never(event)

    def _to(self, status: RunStatus) -> dict[str, Any]:
        if status not in TRANSITIONS[self.status]:
            raise IllegalEvent(f"Run {self.run_id!r} can't go from {self.status} to {status}.")
        return {"status": status}


# Terminal Events carry the Run, and the Run is made of Events: tie the knot here.
for _event in (RunCompleted, RunFailed, RunCancelled, RunTimedOut):
    _event.model_rebuild(_types_namespace={"Run": Run})
