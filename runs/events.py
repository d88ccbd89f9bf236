"""What happens to a Run: immutable, numbered from 0 without a gap, one union.

The workflow emits these while it executes, and a client projects the same ones from the
workflow's history: this file is the contract between the two. Fields are only ever added.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from perdure.runs.actions import Action, Resolution
from perdure.runs.errors import RunError
from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, Timeouts
from perdure.runs.policy import is_nothing
from perdure.runs.start import RunStart, SessionShare
from perdure.runs.status import RunStatus, StopReason, WaitingOn
from perdure.runs.steps import Purpose, Reply
from pydantic import Field, TypeAdapter

if TYPE_CHECKING:
    from perdure.runs.run import Run


class EventBase(Frozen):
    """What every Event says."""

    run_id: str
    sequence_number: int
    """Position in the Run, from 0, without gaps; every reader computes the same one."""
    at: datetime
    """Server time. A workflow and a reader of its history may differ by milliseconds."""


class RunQueued(EventBase):
    """The Run was accepted; no worker has picked it up yet."""

    type: Literal["run.queued"] = "run.queued"
    start: RunStart


class RunStarted(EventBase):
    """A worker picked the Run up."""

    type: Literal["run.started"] = "run.started"
    share: SessionShare | None = None
    """What its Session gives a Run that waited for its turn."""


class StepStarted(EventBase):
    """A Step was handed to the workers."""

    type: Literal["run.step.started"] = "run.step.started"
    step: int
    kind: Literal["model", "tool"]
    name: str
    turn: int
    call_id: str | None = None
    child_run_id: str | None = Field(None, exclude_if=is_nothing)
    """The Run that the Step is, where another agent is called."""
    purpose: Purpose = "turn"
    model: str | None = None
    """The model asked for, where that is not the agent's own."""
    limit: RunError | None = None
    """The limit that was reached, where the model is to conclude."""


class StepCompleted(EventBase):
    """A Step ended well; its reply will never be asked for again."""

    type: Literal["run.step.completed"] = "run.step.completed"
    step: int
    reply: Reply


class StepFailed(EventBase):
    """A Step ended without a usable result; what it did bring is kept."""

    type: Literal["run.step.failed"] = "run.step.failed"
    step: int
    error: RunError
    reply: Reply | None = None


CancelMode = Literal["now", "after_step", "rollback"]
"""Abort what is in flight; let it end first; or abort, and have the Session forget the Run."""


StoppedBy = Literal["user", "deadline", "queue", "session"]
"""Who stops a Run: a person, its time limit, the time limit of its wait in the queue, or its
Session, where another Run takes its place."""


class CancelRequested(EventBase):
    """The Run is to stop: nothing new starts, what is in flight is told."""

    type: Literal["run.cancel_requested"] = "run.cancel_requested"
    by: StoppedBy = "user"
    mode: CancelMode = "now"
    reason: str = ""


class Cancel(Frozen):
    """That a Run was asked to stop, and, once it has ended, what came of it."""

    requested_at: datetime
    by: StoppedBy = "user"
    mode: CancelMode = "now"
    reason: str = ""
    model_aborted_after_ms: int | None = None
    """From the request until the model call in flight had ended; none when none was."""
    tools_running: tuple[str, ...] = ()
    """Ids of the calls that were told to stop. A sync tool's thread may still go on."""
    outcome_unknown: tuple[str, ...] = ()
    """Those of them that may have had their effect."""
    partial_output_chars: int = 0
    """What the model had said by then; it is kept as the Step's text."""

    @property
    def is_urgent(self) -> bool:
        """True when Steps in flight are to be aborted."""
        return self.mode != "after_step"


class ActionRequired(EventBase):
    """People are to decide something before the Run can go on, or before a part of it can."""

    type: Literal["run.action.required"] = "run.action.required"
    actions: tuple[Action, ...]


class ActionResolved(EventBase):
    """A person decided, or nobody did in time."""

    type: Literal["run.action.resolved"] = "run.action.resolved"
    action_id: str
    resolution: Resolution


class HandedOff(EventBase):
    """The Run goes on as another agent."""

    type: Literal["run.handed_off"] = "run.handed_off"
    agent: str
    call_id: str


class RunPaused(EventBase):
    """The Run waits for a person."""

    type: Literal["run.paused"] = "run.paused"
    waiting_on: WaitingOn


class RunUnpaused(EventBase):
    """What the Run waited for has come."""

    type: Literal["run.unpaused"] = "run.unpaused"


class MessageAccepted(EventBase):
    """A person said something: it joins before the next model call."""

    type: Literal["run.message.accepted"] = "run.message.accepted"
    message_id: str
    text: str
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)


class PauseRequested(EventBase):
    """Nothing new is to start; what is in flight goes to its end."""

    type: Literal["run.pause_requested"] = "run.pause_requested"
    reason: str = ""


class UnpauseRequested(EventBase):
    """The Run that a person paused may go on."""

    type: Literal["run.unpause_requested"] = "run.unpause_requested"


class LimitsRaised(EventBase):
    """A person changed how much the Run may use."""

    type: Literal["run.limits.raised"] = "run.limits.raised"
    limits: Limits


class RunResumed(EventBase):
    """A Run that had not completed goes on from its last good Step, under the same id."""

    type: Literal["run.resumed"] = "run.resumed"
    ended: RunStatus
    """How it had ended."""
    limits: Limits = Limits()
    """Those that were changed."""
    timeouts: Timeouts = Timeouts()
    budget: Limits = Limits()


class EndBase(EventBase):
    """What every terminal Event says."""

    stop_reason: StopReason
    run: Optional["Run"] = None
    """The whole Run, filled in by `RunManager.events`; not stored."""


class RunCompleted(EndBase):
    """The agent concluded."""

    type: Literal["run.completed"] = "run.completed"
    output: str


class RunFailed(EndBase):
    """The Run could not go on; what was done is kept."""

    type: Literal["run.failed"] = "run.failed"
    error: RunError
    output: str | None = None


class RunCancelled(EndBase):
    """The Run was cancelled, or terminated by an operator."""

    type: Literal["run.cancelled"] = "run.cancelled"
    reason: str = ""
    error: RunError | None = None


class RunTimedOut(EndBase):
    """The Run took longer than it may."""

    type: Literal["run.timeout"] = "run.timeout"
    error: RunError


TerminalEvent = RunCompleted | RunFailed | RunCancelled | RunTimedOut

Event = Annotated[
    RunQueued
    | RunStarted
    | StepStarted
    | StepCompleted
    | StepFailed
    | CancelRequested
    | ActionRequired
    | ActionResolved
    | HandedOff
    | RunPaused
    | RunUnpaused
    | MessageAccepted
    | PauseRequested
    | UnpauseRequested
    | LimitsRaised
    | RunResumed
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunTimedOut,
    Field(discriminator="type"),
]


def event_from_json(text: str | bytes) -> Event:
    """Read one Event.

    Raises:
        pydantic.ValidationError: When it is none.
    """
    event: Event = TypeAdapter(Event).validate_json(text)
    return event
