"""What happens to a Run: immutable, numbered from 0 without a gap, one union.

The workflow emits these while it executes, and a client projects the same ones from the
workflow's history: this file is the contract between the two. Fields are only ever added.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from perdure.runs.errors import RunError
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, Timeouts
from perdure.runs.messages import Message
from perdure.runs.status import StopReason
from perdure.runs.steps import Reply
from pydantic import Field, TypeAdapter

if TYPE_CHECKING:
    from perdure.runs.run import Run


class ContextBundle(Frozen):
    """What a Run starts from, besides its input."""

    messages: tuple[Message, ...] = ()
    """The conversation so far, oldest first."""
    variables: dict[str, Any] = Field(default_factory=dict)


class RunStart(Frozen):
    """What a caller gave to start a Run."""

    agent: str
    input: str
    session_id: str | None = None
    context: ContextBundle = ContextBundle()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    metadata: dict[str, str] = Field(default_factory=dict)
    parent_run_id: str | None = None
    forked_from: str | None = None


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


class StepStarted(EventBase):
    """A Step was handed to the workers."""

    type: Literal["run.step.started"] = "run.step.started"
    step: int
    kind: Literal["model", "tool"]
    name: str
    turn: int
    call_id: str | None = None


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


class CancelRequested(EventBase):
    """The Run is to stop: nothing new starts, what is in flight is told."""

    type: Literal["run.cancel_requested"] = "run.cancel_requested"
    by: Literal["user", "deadline"] = "user"
    reason: str = ""


class Cancel(Frozen):
    """That a Run was asked to stop. The first request counts."""

    requested_at: datetime
    by: Literal["user", "deadline"] = "user"
    reason: str = ""

    @staticmethod
    def of(event: CancelRequested) -> "Cancel":
        """Return what the Run keeps of the request."""
        return Cancel(requested_at=event.at, by=event.by, reason=event.reason)


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
