"""Which tool calls wait for a person's yes: rules, as plain data or plain functions.

A rule is asked twice: when the model has asked for the call, and once more by what executes it.
One that can't be evaluated means yes, ask.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from perdure.runs.messages import without_lone_surrogates
from perdure.runs.policy import Approval, Effect


@dataclass(frozen=True)
class ProposedCall:
    """A tool call that a model asks for, as a rule sees it."""

    tool: str
    arguments: dict[str, Any]
    """As the function would get them: checked and converted."""
    effect: Effect


ApprovalRule = bool | Literal["unsafe"] | Callable[[ProposedCall], bool | str]
"""Which calls wait: all, or none; those of tools whose effect is `unsafe`; or those for which a
function returns True or, for the person to read, why. It may not do I/O: it is asked again."""

REASON_CHARS = 500
"""Of what a rule says."""


def approval_of(rules: Iterable[ApprovalRule | None], call: ProposedCall) -> Approval | None:
    """Return that a call waits for a person, if one of the rules says so."""
    for rule in rules:
        said = _asked(rule, call)
        if said:
            reason = said if isinstance(said, str) else ""
            return Approval(reason=without_lone_surrogates(reason)[:REASON_CHARS])
    return None


def _asked(rule: ApprovalRule | None, call: ProposedCall) -> bool | str:
    if rule == "unsafe":
        return call.effect == "unsafe"
    if not callable(rule):
        return bool(rule)
    try:
        return rule(call)
    except Exception as exc:  # noqa: BLE001 - a rule that fails must not open the gate
        return f"The rule for this tool failed: {type(exc).__name__}."
