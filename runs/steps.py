"""Steps of a Run, the tool calls between them, and what the activities reply.

A model Step's reply carries everything the workflow needs to go on: the calls, each with the
policy its tool asks for or the reason why it is refused. Workflow code looks nothing up.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from perdure.runs.actions import Action, Resolution
from perdure.runs.checked import Checked
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.files import FileRef
from perdure.runs.files import StoredText as StoredText  # also by this name
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Terms
from perdure.runs.messages import canonical_json
from perdure.runs.policy import Approval, ToolPolicy, is_nothing
from perdure.runs.usage import ModelUsage, Usage
from pydantic import Field

Purpose = Literal["turn", "conclude", "compact"]
"""What a model is called for: the agent's next turn; the last one, without tools, after a limit
was reached; or to sum up older messages that the model's window has no room for."""

Repair = Literal["double_encoded"]
"""What a model's arguments needed: the object stood inside a JSON string."""


class RequestedCall(Frozen):
    """A tool call that a model asked for: checked by the worker against the agent's tools."""

    call_id: str
    """Unique in its turn; the provider's own id where that is usable."""
    name: str
    arguments: str
    """The text of a JSON object: what the tool gets, or `{}` where the model's was unusable."""
    policy: ToolPolicy = ToolPolicy()
    rejection: RunError | None = None
    """Why the call is not executed; the model is told."""
    raw_arguments: str | None = None
    """What the model wrote, at most 200 characters, where that was unusable or was changed."""
    repaired: Repair | None = None
    """What was undone before the arguments fitted."""
    provider_id: str | None = None
    """The provider's own id, where that could not be used."""
    changed_by: str | None = None
    """The check that made these arguments of what the model wrote."""


class Mark(Frozen):
    """A point in a transcript: so many messages, with this chained SHA-256 over them."""

    count: int = 0
    digest: str = ""


class ModelReply(Frozen):
    """Result of the activity `call_model`."""

    kind: Literal["model"] = "model"
    model: str
    """The model that answered, as the provider names it."""
    alias: str = Field("", exclude_if=is_nothing)
    """What it was asked for as, where that is a name of ours for it (docs/models.md)."""
    text: str | None = None
    refusal: str | None = None
    calls: tuple[RequestedCall, ...] = Field((), exclude_if=is_nothing)
    finish_reason: str = ""
    """As the provider sent it."""
    usage: ModelUsage = ModelUsage()
    usage_suspect: bool = Field(False, exclude_if=is_nothing)
    """What the provider reported can't be true, such as an answer to no input."""
    duplicate_dropped: int = Field(0, exclude_if=is_nothing)
    """Calls that only repeated another one: same id, name and arguments."""
    incomplete: bool = Field(False, exclude_if=is_nothing)
    """The text is only the beginning of an answer."""
    extra: dict[str, str] = Field(default_factory=dict, exclude_if=is_nothing)
    """Text in fields that the reference does not have, such as reasoning: the beginning."""
    echo: dict[str, str] = Field(default_factory=dict, exclude_if=is_nothing)
    """Text in those of them that the model wants back with the message, and of which provider it
    is, where that is not the default one."""
    mark: Mark = Mark()
    """The transcript including this reply."""
    attempt: int = 1
    error: RunError | None = None
    """Set when the reply is no usable answer though there is something to keep."""
    unfit: RunError | None = Field(None, exclude_if=is_nothing)
    """Why this answer can't be the Run's output; the model reads it, and answers again."""
    structured: bool = Field(False, exclude_if=is_nothing)
    """The text is JSON that fits the output's schema."""
    review: Approval | None = Field(None, exclude_if=is_nothing)
    """Set when a person is to approve the Run's output or, with the error `guardrail`, its
    input."""
    checked: Checked | None = None
    """What the agent's checks did; none when they did nothing."""
    terms: Terms | None = None
    """The Run's terms, completed with the agent's; sent with the first reply."""

    @property
    def said(self) -> str | None:
        """The words that the transcript keeps: the refusal where there is one, else the text."""
        return self.text if self.refusal is None else self.refusal

    @property
    def chars(self) -> int:
        """Characters that the Run keeps of it, calls apart."""
        kept = [self.said or "", *self.extra.values(), *self.echo.values()]
        return sum(map(len, kept)) + len(self.unfit.message if self.unfit is not None else "")

    @property
    def of_step(self) -> dict[str, Any]:
        """What the Step keeps of it, under the same names."""
        return {name: getattr(self, name) for name in KEPT_BY_STEP}


KEPT_BY_STEP = tuple(
    "alias finish_reason usage usage_suspect duplicate_dropped incomplete extra echo mark unfit "
    "structured review checked".split()
)


class ToolReply(Frozen):
    """Result of a tool's activity."""

    kind: Literal["tool"] = "tool"
    text: str
    """What the model reads."""
    attempt: int = 1
    error: RunError | None = None
    stopped: bool = False
    """True when the tool was told to stop with its Run, whatever is known of its effect."""
    full: StoredText | None = Field(None, exclude_if=lambda full: full is None)
    """The whole result, where `text` is cut. Not written where it is not: nearly never."""
    usage: Usage | None = Field(None, exclude_if=is_nothing)
    """What the Run of another agent used, where that was the tool."""
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    """What the tool returned besides text."""


Reply = Annotated[ModelReply | ToolReply, Field(discriminator="kind")]

StepStatus = Literal["running", "completed", "failed", "cancelled"]
CallStatus = Literal["requested", "running", "completed", "failed", "rejected", "cancelled"]


class Step(Frozen):
    """One activity of a Run: one model call or one tool call."""

    number: int
    """From 1, over the whole Run; the Temporal activity id."""
    kind: Literal["model", "tool", "check"]
    """`check`: a guardrail's call of a model, within the activity of a Step before it."""
    turn: int
    """From 1; the Steps of one model call and the tools it asked for share it."""
    purpose: Purpose = "turn"
    name: str
    """The model as the provider names it (the agent's name until it answered), or the tool."""
    alias: str = Field("", exclude_if=is_nothing)
    """What the model was asked for as, where that is a name of ours for it."""
    status: StepStatus = "running"
    call_id: str | None = None
    """The tool call that a tool Step executes."""
    child_run_id: str | None = None
    """The Run that it is, where another agent was called."""
    child_usage: Usage | None = None
    """What that Run used; it counts as this Run's, too."""
    text: str | None = None
    """What a model Step said. A tool's result is at its `ToolCall`."""
    finish_reason: str = ""
    usage: ModelUsage | None = None
    usage_suspect: bool = False
    duplicate_dropped: int = 0
    incomplete: bool = False
    extra: dict[str, str] = Field(default_factory=dict)
    echo: dict[str, str] = Field(default_factory=dict)
    mark: Mark | None = None
    unfit: RunError | None = None
    structured: bool = False
    review: Approval | None = None
    checked: Checked | None = None
    action: Action | None = None
    """What a person was asked about the input or output of the Run."""
    error: RunError | None = None
    attempt: int = 1
    started_at: datetime | None = None
    completed_at: datetime | None = None


class ToolCall(Frozen):
    """A tool call that a model asked for, and what became of it."""

    call_id: str
    name: str
    arguments: str
    model_step: int
    """The Step that asked for it."""
    step: int | None = None
    """The Step that executes it; none when it was rejected."""
    status: CallStatus = "requested"
    policy: ToolPolicy = ToolPolicy()
    action: Action | None = None
    """What a person was asked about it, latest."""
    result: str | None = None
    """What the model reads. Always set once the call has ended, whatever the end."""
    full: StoredText | None = None
    """The whole result, where `result` is cut; `RunManager.result` reads it."""
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    """What it returned besides; `RunManager.file` reads them."""
    error: RunError | None = None
    raw_arguments: str | None = None
    repaired: Repair | None = None
    provider_id: str | None = None
    changed_by: str | None = None

    @classmethod
    def of(cls, call: RequestedCall, model_step: int) -> "ToolCall":
        """Return the call that a model Step asked for, before it is executed."""
        why = call.rejection
        return cls(
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
            model_step=model_step,
            policy=call.policy,
            raw_arguments=call.raw_arguments,
            repaired=call.repaired,
            provider_id=call.provider_id,
            changed_by=call.changed_by,
            status="requested" if why is None else "rejected",
            error=why,
            result=None if why is None else error_text(why),
        )

    @property
    def is_settled(self) -> bool:
        """True when the model can be told how the call ended."""
        return self.status not in ("requested", "running")

    @property
    def may_run_again(self) -> bool:
        """True when executing it is safe: it never began, or running it twice does no harm."""
        stopped = self.error is not None and self.error.code in STOPPED_CODES
        return stopped and (self.step is None or self.policy.effect != "unsafe")

    def settled(self, why: RunError | None = None) -> "ToolCall":
        """Return the call as it stands when nobody will execute it any more.

        One that was asked for but not answered would make the transcript invalid for ever.

        Args:
            why: What the model is told; that the Run ended, when not given.
        """
        action = self.action
        if action is not None and action.is_open:
            action = action.resolved(Resolution(verdict="cancelled"))
        if self.is_settled:
            return self if action is self.action else self.model_copy(update={"action": action})
        if why is None and self.status == "running" and self.policy.effect != "read":
            why = error(ErrorCode.OUTCOME_UNKNOWN, "The Run ended while the tool was running.")
        why = why or error(ErrorCode.CANCELLED, "The Run ended before this call did.")
        end = {"status": "cancelled", "error": why, "result": error_text(why), "action": action}
        return self.model_copy(update=end)

    def requested_again(self) -> "ToolCall":
        """Return the call as it was before it was executed.

        A yes that was not used yet still holds.
        """
        unused = self.step is None and self.action is not None and self.action.is_approved
        asked = {
            "status": "requested",
            "step": None,
            "error": None,
            "result": None,
            "files": (),
            "action": self.action if unused else None,
        }
        return self.model_copy(update=asked)


STOPPED_CODES = (ErrorCode.CANCELLED, ErrorCode.OUTCOME_UNKNOWN, ErrorCode.WORKER_LOST)
"""Ends of a call that was not executed to its end."""


def error_text(error: RunError) -> str:
    """Return what the model reads in place of a result."""
    told: dict[str, Any] = {"code": error.code.value, "message": error.message}
    return canonical_json({"error": told}).decode()


def was_stopped(error: RunError | None, reply: ModelReply | ToolReply | None) -> bool:
    """Tell whether a Step did not fail by itself, but was stopped with its Run."""
    told = isinstance(reply, ToolReply) and reply.stopped
    return told or (error is not None and error.code is ErrorCode.CANCELLED)
