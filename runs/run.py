"""The Run, and the only way it changes: `Run.apply(event)`.

The rules of this file: everything that an Event does to a Run stands here; nothing here reads
a clock, an id source or the outside; an Event that can't follow raises `IllegalEvent` and
changes nothing (a Run is immutable). Two readers fold the same Events with it: the workflow,
and every client that projects the workflow's history.
"""

from datetime import datetime
from typing import Any, assert_never

from perdure.runs.codes import UNKNOWN_USAGE
from perdure.runs.errors import IllegalEvent, RunError
from perdure.runs.events import (
    Cancel,
    CancelRequested,
    ContextBundle,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunStarted,
    RunTimedOut,
    StepCompleted,
    StepFailed,
    StepStarted,
    TerminalEvent,
)
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, Timeouts
from perdure.runs.status import TRANSITIONS, RunStatus, StopReason, WaitingOn
from perdure.runs.steps import (
    ModelReply,
    Reply,
    Step,
    ToolCall,
    ToolReply,
    error_text,
    is_cancelled,
)
from perdure.runs.usage import Usage
from pydantic import Field, computed_field


class Run(Frozen):
    """One whole task of an agent."""

    run_id: str
    session_id: str | None = None
    agent: str
    status: RunStatus = RunStatus.PENDING
    stop_reason: StopReason | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last_progress_at: datetime
    input_message: str
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
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    metadata: dict[str, str] = Field(default_factory=dict)
    parent_run_id: str | None = None
    forked_from: str | None = None
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
        start = event.start
        return Run(
            run_id=event.run_id,
            agent=start.agent,
            session_id=start.session_id,
            created_at=event.at,
            last_progress_at=event.at,
            input_message=start.input,
            context=start.context,
            limits=start.limits,
            timeouts=start.timeouts,
            metadata=start.metadata,
            parent_run_id=start.parent_run_id,
            forked_from=start.forked_from,
            transcript_chars=sum(len(m.content or "") for m in start.context.messages)
            + len(start.input),
        )

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
        if self.status.is_terminal:
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
                return self._to(RunStatus.RUNNING) | {"started_at": event.at}
            case StepStarted():
                return self._step_started(event)
            case StepCompleted():
                return self._step_ended(event, event.reply, event.reply.error)
            case StepFailed():
                return self._step_ended(event, event.reply, event.error)
            case CancelRequested():
                return {"cancel": self.cancel or Cancel.of(event)}
            case RunCompleted():
                return self._end(RunStatus.COMPLETED, event, output=event.output)
            case RunFailed():
                return self._end(RunStatus.FAILED, event, output=event.output)
            case RunCancelled():
                return self._end(RunStatus.CANCELLED, event)
            case RunTimedOut():
                return self._end(RunStatus.TIMEOUT, event)
            case _:
                assert_never(event)

    def _to(self, status: RunStatus) -> dict[str, Any]:
        if status not in TRANSITIONS[self.status]:
            raise IllegalEvent(f"Run {self.run_id!r} can't go from {self.status} to {status}.")
        return {"status": status}

    def _end(
        self, status: RunStatus, event: TerminalEvent, output: str | None = None
    ) -> dict[str, Any]:
        return self._to(status) | {
            "completed_at": event.at,
            "stop_reason": event.stop_reason,
            "output": output,
            "error": None if isinstance(event, RunCompleted) else event.error,
            "current_step": None,
            "waiting_on": None,
            "tool_calls": tuple(call.settled() for call in self.tool_calls),
        }

    def _step_started(self, event: StepStarted) -> dict[str, Any]:
        if self.status is not RunStatus.RUNNING or event.step != len(self.steps) + 1:
            raise IllegalEvent(
                f"Run {self.run_id!r} ({self.status}) can't start Step {event.step} "
                f"after {len(self.steps)} Steps."
            )
        step = Step(
            number=event.step,
            kind=event.kind,
            turn=event.turn,
            name=event.name,
            call_id=event.call_id,
            started_at=event.at,
        )
        changes: dict[str, Any] = {
            "steps": (*self.steps, step),
            "current_step": event.step,
            "turn": event.turn,
        }
        if event.call_id is not None:
            running = {"status": "running", "step": event.step}
            changes["tool_calls"] = self._with_call(event.call_id, running)
        return changes

    def _step_ended(
        self, event: StepCompleted | StepFailed, reply: Reply | None, why: RunError | None
    ) -> dict[str, Any]:
        step = self._running_step(event.step)
        ended: dict[str, Any] = {"completed_at": event.at, "error": why, "status": "completed"}
        if isinstance(event, StepFailed):
            ended["status"] = "cancelled" if is_cancelled(why) else "failed"
        if reply is not None:
            ended["attempt"] = reply.attempt
        changes: dict[str, Any] = {}
        if step.kind == "tool":
            text = reply.text if isinstance(reply, ToolReply) else error_text(why) if why else ""
            settled = {"status": ended["status"], "result": text, "error": why}
            changes["tool_calls"] = self._with_call(step.call_id or "", settled)
            changes["usage"] = self.usage.plus_tool_call()
            changes["transcript_chars"] = self.transcript_chars + len(text)
        elif isinstance(reply, ModelReply):
            ended |= {
                "name": reply.model,
                "text": reply.said,
                "finish_reason": reply.finish_reason,
                "usage": reply.usage,
                "mark": reply.mark,
            }
            changes = self._model_answered(step, reply)
        elif why is not None and why.code in UNKNOWN_USAGE:
            changes["usage"] = self.usage.model_copy(update={"complete": False})
        steps = list(self.steps)
        steps[event.step - 1] = step.model_copy(update=ended)
        changes["steps"] = tuple(steps)
        changes["current_step"] = _latest_running(steps, step.turn)
        return changes

    def _model_answered(self, step: Step, reply: ModelReply) -> dict[str, Any]:
        calls = tuple(ToolCall.of(call, step.number) for call in reply.calls)
        said = len(reply.said or "") + sum(len(c.arguments) + len(c.result or "") for c in calls)
        changes: dict[str, Any] = {
            "tool_calls": self.tool_calls + calls,
            "usage": self.usage.plus_call(reply.usage),
            "transcript_chars": self.transcript_chars + said,
        }
        if reply.limits is not None:
            changes["limits"] = self.limits.over(reply.limits)
        return changes

    def _running_step(self, number: int) -> Step:
        if not 1 <= number <= len(self.steps) or self.steps[number - 1].status != "running":
            raise IllegalEvent(f"Step {number} of Run {self.run_id!r} is not running.")
        return self.steps[number - 1]

    def _with_call(self, call_id: str, update: dict[str, Any]) -> tuple[ToolCall, ...]:
        # From the end: some providers use the same ids again in every turn.
        for index in range(len(self.tool_calls) - 1, -1, -1):
            if self.tool_calls[index].call_id == call_id:
                call = self.tool_calls[index].model_copy(update=update)
                return (*self.tool_calls[:index], call, *self.tool_calls[index + 1 :])
        raise IllegalEvent(f"Run {self.run_id!r} has no tool call {call_id!r}.")


def _latest_running(steps: list[Step], turn: int) -> int | None:
    # Only Steps of the latest turn can be running, so a long Run is not searched to its start.
    for step in reversed(steps):
        if step.turn != turn:
            return None
        if step.status == "running":
            return step.number
    return None


# Terminal Events carry the Run, and the Run is made of Events: tie the knot here.
for _event in (RunCompleted, RunFailed, RunCancelled, RunTimedOut):
    _event.model_rebuild(_types_namespace={"Run": Run})
