"""Checks of what goes into an agent, of the tool calls it asks for, and of what comes out.

A check is a plain function, sync or async, that is given one thing and returns a verdict on it;
nothing means that it passes. A check that fails, or takes too long, lets nothing pass.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perdure.agents.approval import ProposedCall
from perdure.runs.messages import without_lone_surrogates

if TYPE_CHECKING:
    from perdure.agents.agent import Agent

VerdictKind = Literal["allow", "change", "reject", "retry", "ask"]
REASON_CHARS = 2_000
"""Of what a check says."""


@dataclass(frozen=True)
class Verdict:
    """What a check says; made by `allow`, `change`, `reject`, `retry` and `ask`."""

    kind: VerdictKind
    reason: str = ""
    value: Any = None
    """What takes the place of what was checked."""


def allow() -> Verdict:
    """Let it pass."""
    return Verdict("allow")


def change(value: Any) -> Verdict:
    """Let something else pass in its place.

    Args:
        value: A text; of a call, its arguments as a dict; of structured output, its value. What was
            changed is checked again where a tool is executed: a change of it must change nothing.
    """
    return Verdict("change", value=value)


def reject(reason: str) -> Verdict:
    """Refuse it: an input or output ends the Run `guardrail`; of a call, the model is told why."""
    return _said("reject", reason)


def retry(reason: str) -> Verdict:
    """Refuse an output, and let the model answer again; it is told why. Three times at most."""
    return _said("retry", reason)


def ask(reason: str) -> Verdict:
    """Let a person decide; they are told why."""
    return _said("ask", reason)


def _said(kind: VerdictKind, reason: str) -> Verdict:
    return Verdict(kind, without_lone_surrogates(reason)[:REASON_CHARS])


@dataclass(frozen=True)
class CheckedInput:
    """What is said to a Run: its input, or a message that came later."""

    text: str
    agent: str
    run_id: str


@dataclass(frozen=True)
class CheckedOutput:
    """What a Run would end with."""

    text: str
    value: Any
    """Of structured output, what the text stands for, in plain JSON types; else none."""
    agent: str
    run_id: str


@dataclass(frozen=True)
class Judge:
    """A check that asks a model; made by `judged_by`."""

    name: str
    agent: "Agent"
    """Whose model is asked."""
    otherwise: VerdictKind
    """What happens to what it does not let pass."""


Said = Verdict | None
InputCheck = Callable[[CheckedInput], Said | Awaitable[Said]] | Judge
ArgumentCheck = Callable[[ProposedCall], Said | Awaitable[Said]]
OutputCheck = Callable[[CheckedOutput], Said | Awaitable[Said]] | Judge
AnyCheck = InputCheck | ArgumentCheck | OutputCheck

VERDICTS: dict[str, tuple[VerdictKind, ...]] = {
    "input": ("allow", "change", "reject", "ask"),
    "arguments": ("allow", "change", "reject", "ask"),
    "output": ("allow", "change", "reject", "retry", "ask"),
}
"""What may be said of what."""


def name_of(check: AnyCheck) -> str:
    """Return what a check is called where its verdict is told."""
    if isinstance(check, Judge):
        return check.name
    return str(getattr(check, "__name__", type(check).__name__))
