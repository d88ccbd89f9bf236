"""How a tool call is executed: what its tool asks for, filled in by the worker for each call."""

from typing import Literal

from perdure.runs.frozen import Frozen
from pydantic import Field, PositiveFloat, PositiveInt

Effect = Literal["read", "keyed", "unsafe"]
"""What running a tool twice would do: nothing (`read`), nothing when it is handed the same
idempotency key (`keyed`), harm (`unsafe`)."""

CallKind = Literal["function", "question", "agent", "handoff"]
"""What executes a call: a tool's function; a person, who answers; a Run of another agent; or this
Run itself, which goes on as another agent."""


def is_nothing(value: object) -> bool:
    """Tell whether a field need not be written: every reply would carry it through the history."""
    return not value


class Approval(Frozen):
    """That something waits for a person's yes."""

    reason: str = Field("", exclude_if=is_nothing)
    """Why, for the person."""
    expires_s: PositiveFloat | None = None
    """Seconds that the person may take; then it is a no. The worker fills it in."""


def is_unsafe(effect: object) -> bool:
    """Tell whether an effect need not be written: it is the one that is assumed."""
    return effect == "unsafe"


def _is_function(kind: object) -> bool:
    return kind == "function"


class ToolPolicy(Frozen):
    """How the workflow executes one tool call."""

    effect: Effect = "unsafe"
    timeout_s: PositiveFloat | None = None
    """One attempt, from start to end; of a question, until it is answered; of another agent, its
    whole Run. The worker fills it in for every call, except for agents."""
    max_attempts: PositiveInt = 1
    """Attempts when a worker dies; a tool's own error is never retried."""
    kind: CallKind = Field("function", exclude_if=_is_function)
    target: str | None = Field(None, exclude_if=is_nothing)
    """The agent that is called, or that goes on."""
    approval: Approval | None = Field(None, exclude_if=is_nothing)
    """Set when a person is to approve the call before it is executed."""
    task_queue: str | None = Field(None, exclude_if=is_nothing)
    """Whose workers execute it; those of the Run's own task queue, when not given."""
