"""What a tool is told of the call that it executes, and what it can say meanwhile."""

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self

from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import DEFAULT_TOOL_S
from perdure.runs.messages import without_lone_surrogates

MAX_PROGRESS_CHARS = 500
"""Of a progress message; more is cut. It is one line of a view, sent several times a second."""


class ToolProgress(NamedTuple):
    """How far a tool says it is."""

    message: str
    fraction: float | None = None
    """From 0 to 1, where it is known."""


def _default_deadline() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=DEFAULT_TOOL_S)


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolContext:
    """One execution of one tool call.

    A worker makes it. In a test, make one yourself: everything has a default. Pass it as the
    parameter of a tool that has one, or enter it (`with ToolContext(variables=…):`) for code that
    asks `tool_context()`.
    """

    run_id: str = "test-run"
    session_id: str | None = None
    """The conversation that the Run is part of, if it is part of one."""
    agent: str = "test-agent"
    step: int = 1
    turn: int = 1
    call_id: str = "test-call"
    """Unique in its turn; the provider's own id where that is usable."""
    idempotency_key: str = "test-run:1:test-call"
    """The same for every attempt and resumption of this call: hand it to whatever has the effect,
    and a second execution has none."""
    attempt: int = 1
    """From 1; above 1 when a worker died under an earlier one, or its time ran out."""
    deadline: datetime = field(default_factory=_default_deadline)
    """When the time of this attempt runs out, by Temporal's clock."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Of the Run and its Session: what the caller wants tools to know, and the model not."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the worker; ask `secret` for one."""
    redact: Callable[[str], str] = field(default=str, repr=False)
    """Takes known secrets out of what is said in `progress`."""
    _stopping: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _said: deque[ToolProgress] = field(
        default_factory=lambda: deque(maxlen=1), init=False, repr=False
    )
    _entered: list[Token["ToolContext"]] = field(default_factory=list, init=False, repr=False)

    @property
    def cancelled(self) -> bool:
        """True once the Run, or the worker, wants the tool to stop, or its time is over.

        A sync tool that takes long asks now and then. An async one need not: it is cancelled.
        """
        return self._stopping.is_set()

    def wait_cancelled(self, timeout_s: float) -> bool:
        """Wait until the tool is to stop, but no longer than `timeout_s`; return `cancelled`.

        For sync tools, in place of a sleep.
        """
        return self._stopping.wait(timeout_s)

    def cancel(self) -> None:
        """Tell the tool to stop: a worker does, or a test."""
        self._stopping.set()

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Say how far the tool is. Whoever watches the Run sees the latest; it is kept nowhere.

        Cheap, and may be called as often as one likes: it goes out now and then, five times a
        second by heartbeat.

        Args:
            message: For people; cut at `MAX_PROGRESS_CHARS`. Known secrets are taken out.
            fraction: How much is done, from 0 to 1.
        """
        text = without_lone_surrogates(self.redact(message))[:MAX_PROGRESS_CHARS]
        if fraction is not None:
            fraction = None if math.isnan(fraction) else min(max(float(fraction), 0.0), 1.0)
        self._said.append(ToolProgress(text, fraction))

    @property
    def last_progress(self) -> ToolProgress | None:
        """What the tool said last."""
        return self._said[-1] if self._said else None

    def secret(self, name: str) -> str:
        """Return a secret of the worker.

        Its value is masked in results, errors and progress; don't put it together with other
        characters, or cut it, before you return it.

        Args:
            name: `github` is PERDURE_SECRET_GITHUB in the worker's environment or `.env` file.

        Raises:
            ConfigurationError: When the worker has none of that name.
        """
        wanted = _comparable(name)
        for each, value in self.secrets.items():
            if _comparable(each) == wanted:
                return value
        raise ConfigurationError(
            f"There is no secret {name!r}.",
            hint=f"Set PERDURE_SECRET_{wanted.upper()} where the worker runs.",
        )

    def __enter__(self) -> Self:
        """Make this what `tool_context` returns, in this task and the threads it starts."""
        self._entered.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._entered.pop())


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
            "There is no tool call here.",
            hint="Call this inside a tool that a worker executes; in a test, inside "
            "`with ToolContext():`.",
        ) from None


def _comparable(name: str) -> str:
    return name.lower().replace("-", "_")
