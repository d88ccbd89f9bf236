"""What a Run starts from: what its caller gives, and what another Run or a Session leaves it."""

from typing import Any

from perdure.runs.files import FileRef, chars
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.messages import Message
from perdure.runs.policy import is_nothing
from perdure.runs.steps import Step, ToolCall
from perdure.runs.tracing import TraceContext
from pydantic import Field


class ContextBundle(Frozen):
    """What a Run starts from, besides its input."""

    messages: tuple[Message, ...] = ()
    """The conversation so far, oldest first."""
    variables: dict[str, Any] = Field(default_factory=dict)


class FollowUp(Frozen):
    """Something a person said after the Run had begun."""

    after_step: int
    """It stands behind this Step, and behind the results of the calls that it asked for."""
    text: str
    message_id: str = ""
    """None for what a fork begins with."""
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    told: str | None = None
    """What the model reads instead, where a check changed it."""

    @property
    def words(self) -> str:
        """What the model reads."""
        return self.text if self.told is None else self.told


class Compaction(Frozen):
    """Older messages, summed up so that the model's window has room again."""

    step: int
    """The model Step that summed them up; 0 before the first."""
    up_to: int
    """Messages of Steps up to this one are replaced by the summary; 0: only the opening."""
    summary: str


class Checkpoint(Frozen):
    """A point of a Run that another one begins at: what had been done by then."""

    steps: tuple[Step, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    follow_ups: tuple[FollowUp, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    actions_asked: int = Field(0, exclude_if=is_nothing)
    """So that no action of the fork has the id of one of these."""
    told_input: str | None = None
    """What the model read instead of the input, where a check had changed it."""

    @property
    def chars(self) -> int:
        """Characters of all that was said by then."""
        said = sum(len(step.text or "") for step in self.steps)
        said += sum(len(step.unfit.message) for step in self.steps if step.unfit is not None)
        said += sum(len(call.arguments) + len(call.result or "") for call in self.tool_calls)
        said += sum(chars(call.files) for call in self.tool_calls)
        return said + sum(len(each.words) + chars(each.files) for each in self.follow_ups)


class SessionShare(Frozen):
    """What a Session gives a Run when its turn comes, or a Run the one that it calls."""

    context: ContextBundle = ContextBundle()
    """The conversation so far, and the variables."""
    budget: Limits = Limits()
    """What is left of the limits."""
    context_window: int | None = None
    """Tokens that the model of the Run before could read."""


class RunStart(Frozen):
    """What a caller gave to start a Run."""

    agent: str
    input: str
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    """What the input comes with."""
    model: str | None = None
    """Instead of the agent's."""
    on_limit: OnLimit | None = None
    checkpoint: Checkpoint | None = None
    """Where a fork begins."""
    session_id: str | None = None
    queued: bool = Field(False, exclude_if=lambda queued: not queued)
    """The Run waits until its Session lets it begin."""
    share: SessionShare | None = None
    """What its Session gives a Run that begins at once."""
    context: ContextBundle = ContextBundle()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    metadata: dict[str, str] = Field(default_factory=dict)
    parent_run_id: str | None = None
    parent_call_id: str | None = Field(None, exclude_if=is_nothing)
    """The tool call of the parent that this Run is."""
    depth: int = Field(0, exclude_if=is_nothing)
    """Runs above this one."""
    on_unknown: OnUnknown | None = Field(None, exclude_if=is_nothing)
    output_schema: dict[str, Any] | None = Field(None, exclude_if=is_nothing)
    """JSON schema of the output; the agent's own when none is given."""
    forked_from: str | None = None
    part_of: TraceContext | None = Field(None, exclude_if=is_nothing)
    """The span that the Run is started from: its Trace goes on."""
