"""The wire between client, workflow and activities: names, and one request model for each.

A string that crosses a process is defined here and nowhere else, and is never renamed: the
histories of Runs that are going on hold it. `tests/runs/test_contract.py` freezes the names.
"""

from typing import Any

from perdure.runs.actions import Approved, Resolution
from perdure.runs.errors import RunError
from perdure.runs.events import CancelMode, StoppedBy
from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.limits import MAX_PAGE_BYTES, Limits, Terms, Timeouts
from perdure.runs.messages import Message, SentMessage
from perdure.runs.policy import Effect, is_nothing, is_unsafe
from perdure.runs.run import Run
from perdure.runs.start import RunStart, SessionShare
from perdure.runs.status import RunStatus, WaitingOn
from perdure.runs.steps import Mark, Purpose
from perdure.runs.usage import Usage
from pydantic import Field

DEFAULT_TASK_QUEUE = "perdure"

RUN_WORKFLOW = "Run"
CANCEL_SIGNAL = "cancel"
BEGIN_SIGNAL = "begin"
RAISE_LIMITS_UPDATE = "raise_limits"
SEND_MESSAGE_UPDATE = "send_message"
MESSAGE_SIGNAL = "message"
PAUSE_UPDATE = "pause"
UNPAUSE_UPDATE = "unpause"
RESOLVE_ACTION_UPDATE = "resolve_action"
RUN_QUERY = "run"
STATUS_QUERY = "status"
TRANSCRIPT_QUERY = "transcript"

CALL_MODEL = "call_model"
REQUEST_CANCEL = "request_cancel"
RUN_USAGE = "run_usage"
TOOL_PREFIX = "tool."

STATUS_ATTRIBUTE = "PerdureStatus"
AGENT_ATTRIBUTE = "PerdureAgent"
SESSION_ATTRIBUTE = "PerdureSession"
TOKENS_ATTRIBUTE = "PerdureTokens"
COST_ATTRIBUTE = "PerdureCost"
WAITING_ATTRIBUTE = "PerdureWaiting"

RESUMED_MEMO = "perdure_resumed"
"""Memo of an execution that resumes a Run: where the Run's history before it begins."""
REQUEST_MEMO = "perdure_request"
"""Memo of a Run that was started with an idempotency key: the digest of the request."""
CREATED_MEMO = "perdure_created"
"""Memo of the same: when the Run was created."""


class Resumption(Frozen):
    """That an ended Run goes on, in a new execution of the same workflow id."""

    first_execution: str
    """Where the history of the Run so far begins: a Temporal run id."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    budget: Limits = Limits()
    """What is left of the limits of its Session."""


class RunRequest(Frozen):
    """Input of the workflow `Run`: how it starts, or the Run it continues, as new or resumed."""

    start: RunStart | None = None
    carried: Run | None = None
    resumption: Resumption | None = None


class RunResult(Frozen):
    """Result of the workflow `Run`, for people who open it in the Temporal UI."""

    output: str
    turns: int
    usage: Usage


class ModelRequest(Frozen):
    """Input of the activity `call_model`."""

    agent: str
    step: int
    turn: int
    after: Mark = Mark()
    """The transcript up to and including the model's last answer."""
    messages: tuple[SentMessage, ...] | None = None
    """What came after it: large results, which the history holds already, by reference. None
    when the rest is too large to be sent along: then it is queried."""
    purpose: Purpose = "turn"
    model: str | None = None
    """Instead of the agent's."""
    chosen_model: str | None = Field(None, exclude_if=is_nothing)
    """The one that the Run was started with, where it goes on with another since."""
    summarise: int = 0
    """Messages, from the first one, that a compaction sums up."""
    limit: RunError | None = None
    """The limit that was reached, where the model is to conclude."""
    terms: Terms | None = None
    """The Run's own, until a first call has completed them with the agent's."""
    timeouts: Timeouts = Timeouts()
    max_output_bytes: int | None = None
    depth: int = Field(0, exclude_if=is_nothing)
    """Runs above this one: at `MAX_AGENT_DEPTH`, no other agent can be called."""
    unchecked: int = Field(0, exclude_if=is_nothing)
    """Messages, at the end of the transcript, that somebody said to the Run and that no earlier
    Step of it has shown to the agent's checks."""
    output_schema: dict[str, Any] | None = Field(None, exclude_if=is_nothing)
    """Of the Run's output, where its caller gave one."""
    output_schema_digest: str = Field("", exclude_if=is_nothing)
    """Instead of it, where that is large and an earlier Step of the Run was sent it: SHA-256 over
    its canonical JSON, in hexadecimal."""
    session_id: str | None = Field(None, exclude_if=is_nothing)


class ToolRequest(Frozen):
    """Input of a tool's activity."""

    agent: str
    step: int
    turn: int
    call_id: str
    name: str
    arguments: str
    """The text of a JSON object, already checked against the tool's schema."""
    idempotency_key: str = ""
    """The same for every attempt, replay and resumption of this call; another one in a fork."""
    variables: dict[str, Any] = Field(default_factory=dict)
    effect: Effect = Field("unsafe", exclude_if=is_unsafe)
    """Of the tool, when the model asked for the call: rules about approval see this one."""
    approval: Approved | None = Field(None, exclude_if=is_nothing)
    """A person's yes, where the call needed one."""
    session_id: str | None = Field(None, exclude_if=is_nothing)


class ResolveActionRequest(Frozen):
    """Input of the update `resolve_action`."""

    action_id: str
    digest: str
    """Of the action as the person saw it: a decision on anything else is refused."""
    resolution: Resolution


class CancelRequest(Frozen):
    """Input of the signal `cancel`."""

    reason: str = ""
    mode: CancelMode = "now"
    by: StoppedBy = "user"


class BeginRequest(Frozen):
    """Input of the signal `begin`: it is the Run's turn in its Session."""

    share: SessionShare = SessionShare()


class RaiseLimitsRequest(Frozen):
    """Input of the update `raise_limits`; what is not set stays as it is."""

    limits: Limits


class MessageRequest(Frozen):
    """Input of the update `send_message`, and of the signal `message`."""

    text: str
    message_id: str
    """Chosen by the sender; a message that comes twice is heard once."""
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)


class PauseRequest(Frozen):
    """Input of the update `pause`."""

    reason: str = ""


class UnpauseRequest(Frozen):
    """Input of the update `unpause`."""


class RunPageRequest(Frozen):
    """Input of the query `run`: which Steps to bring along."""

    after_step: int = 0
    max_bytes: int = MAX_PAGE_BYTES


class RunPage(Frozen):
    """A Run with some of its Steps, and the tool calls that these asked for."""

    run: Run
    next_after_step: int | None = None
    """Ask again with this; none when there are no more Steps."""


class TranscriptPageRequest(Frozen):
    """Input of the query `transcript`."""

    start: int = 0
    max_bytes: int = MAX_PAGE_BYTES


class TranscriptPage(Frozen):
    """Messages of a Run, from `start` on."""

    messages: tuple[Message, ...]
    next_start: int | None = None


class RunStatusReport(Frozen):
    """Answer to the query `status`: small whatever the size of the Run."""

    run_id: str
    status: RunStatus
    turn: int
    current_step: int | None = None
    total_tokens: int
    total_cost: float
    waiting_on: WaitingOn | None = None
