"""What a tool can ask about the call that it executes."""

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from perdure.runs.errors import ConfigurationError


@dataclass(frozen=True)
class ToolContext:
    """One execution of one tool call."""

    run_id: str
    call_id: str
    idempotency_key: str
    """The same for every attempt and resumption of this call: hand it to whatever has the effect,
    and a second execution has none."""
    attempt: int
    """From 1; above 1 when a worker died under an earlier one."""
    variables: dict[str, Any] = field(default_factory=dict)
    """Of the Run and its Session: what the caller wants tools to know, and the model not."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the Run, or the worker, wants the tool to stop. An async tool is cancelled instead;
    a sync one that takes long looks here now and then."""


_current: ContextVar[ToolContext] = ContextVar("perdure_tool_context")


def tool_context() -> ToolContext:
    """Return the call that is being executed.

    Raises:
        ConfigurationError: When no tool is being executed by a worker here.
    """
    try:
        return _current.get()
    except LookupError:
        raise ConfigurationError(
            "There is no tool call here.", hint="Call this inside a tool that a worker executes."
        ) from None


def entered(context: ToolContext) -> None:
    """Make `context` what `tool_context` returns, in this task and the threads it starts."""
    _current.set(context)
