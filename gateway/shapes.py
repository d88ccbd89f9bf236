"""Bodies of requests: the same names as in Python."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from perdure.client.continuing import Fork
from perdure.gateway.given import (
    Given,
    GivenContext,
    GivenFile,
    GivenLimits,
    GivenSettings,
    GivenTimeouts,
    Moment,
    limits,
    read_files,
    timeouts,
)
from perdure.runs.events import CancelMode
from perdure.runs.ids import Name
from perdure.runs.limits import OnLimit, OnUnknown
from perdure.runs.status import RunStatus
from perdure.sessions.admission import OnBusy

MAX_WAIT_S = 300.0
"""How long a request may wait: proxies cut longer ones."""
MAX_IDS = 200
"""Runs that are cancelled by one request."""

Seconds = Annotated[float, Field(ge=0, le=MAX_WAIT_S)]


class StartRun(Given):
    """What a Run is started with."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"agent": "assistant", "input": "What is 37 * 43 + 12?"}]}
    )

    agent: Name
    """Name of an agent that the workers have: GET /v1/agents."""
    input: str = ""
    """What the user says; may be empty where there are files."""
    files: tuple[GivenFile, ...] = ()
    """What that comes with: images, text, PDF, WAV or MP3 files."""
    session_id: Name | None = None
    """The conversation it belongs to; one that is new begins with it."""
    context: GivenContext | None = None
    model: str | None = None
    """Instead of the agent's."""
    limits: GivenLimits | None = None
    on_limit: OnLimit | None = None
    on_unknown: OnUnknown | None = None
    """When nobody knows what a tool did: tell the model, or ask a person."""
    timeouts: GivenTimeouts | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    """Kept with the Run, for you."""
    output_schema: dict[str, Any] | None = None
    """JSON schema of what the output has to be."""
    on_busy: OnBusy = "reject"
    """What happens when another Run of its Session is going on."""
    on_disconnect: Literal["continue", "cancel"] = "continue"
    """What happens when you go away while you `wait` or `stream`."""
    wait: bool = False
    """Answer when the Run has ended or needs a person, or after `wait_timeout_s`."""
    wait_timeout_s: Seconds = 30.0
    stream: bool = False
    """Answer with the Run's Events, as they happen."""


class SendMessage(Given):
    """Something that is said to a Run while it goes on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "In metres, please."}]})

    text: str = ""
    message_id: Name | None = None
    """Chosen by us when not given. Sent again with the same one, it is heard once."""
    files: tuple[GivenFile, ...] = ()


class DecideAction(Given):
    """A person's decision."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action_id": "act_1", "decision": "approve"}]}
    )

    action_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The id of the action, or of the tool call that it is about."""
    decision: Literal["approve", "reject", "answer"]
    note: Annotated[str, Field(max_length=4096)] = ""
    """Of a yes or a no: kept with it; the model reads it."""
    arguments: dict[str, Any] | None = None
    """Of a yes: what the tool is to be called with instead."""
    answer: str | None = None
    """Of an answer: its words."""


class CancelRun(Given):
    """How a Run is to stop."""

    mode: CancelMode = "now"
    reason: str = ""
    """Kept with the Run."""


class ChosenRuns(Given):
    """Which of the Runs that are open; what is not set does not restrict."""

    status: Literal[RunStatus.PENDING, RunStatus.RUNNING] | None = None
    agent: Name | None = None
    session_id: Name | None = None
    waiting: bool = False
    """Only those that wait for a person."""
    created_after: Moment | None = None
    created_before: Moment | None = None


class CancelRuns(CancelRun):
    """Which Runs are to stop, and how: by their ids, or all that are open and fit a filter."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"filter": {"agent": "assistant"}, "reason": "Wrong."}]}
    )

    run_ids: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_IDS)] | None = None
    filter: ChosenRuns | None = None


class PauseRun(Given):
    """Why a Run is to pause."""

    reason: str = ""
    """Shown while the Run is paused."""


class NoBody(Given):
    """Nothing is to be said."""


class ChangeRun(Given):
    """What is to be changed of a Run that is going on, or waits for that."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limits": {"max_turns": 50}}]})

    limits: GivenLimits


class ResumeRun(Given):
    """What is to be different when a Run goes on."""

    limits: GivenLimits | None = None
    timeouts: GivenTimeouts | None = None


class ForkRun(Given):
    """What is to be different in a fork; what is not given is as in the original."""

    step: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """The last Step that is taken over; the latest when not given."""
    message: str | None = None
    """What the user says then."""
    files: tuple[GivenFile, ...] = ()
    """What the message comes with."""
    agent: Name | None = None
    model: str | None = None
    limits: GivenLimits | None = None
    timeouts: GivenTimeouts | None = None
    on_limit: OnLimit | None = None
    on_unknown: OnUnknown | None = None
    output_schema: dict[str, Any] | None = None

    def read(self) -> Fork:
        """Return the changes as `RunManager.fork` has them."""
        same = self.model_dump(exclude={"files", "limits", "timeouts"})
        return Fork(
            **same,
            files=read_files(self.files),
            limits=limits(self.limits),
            timeouts=timeouts(self.timeouts),
        )


class ChangeSession(Given):
    """What is to be changed of a Session; one that there is not begins with it."""

    settings: GivenSettings | None = None
    variables: dict[str, Any] | None = None
    """All of them: these replace the ones before."""


class ForkSession(Given):
    """How another Session is to begin with the conversation of this one."""

    new_session_id: Name
    run_id: Name | None = None
    """The Run after which it begins; the conversation as it is now when not given."""
