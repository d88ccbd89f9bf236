"""What a Run asks of people, and how they decide: approvals, questions.

An action is bound to the Run, the call, the tool and the very arguments that a person was shown:
its digest holds all of them, and whatever executes the call computes it again. Nothing that a
model, a tool or a user writes can resolve one; only the update `resolve_action` does.
"""

import hashlib
from datetime import datetime
from typing import Literal

from perdure.runs.frozen import Frozen
from perdure.runs.messages import canonical_json
from perdure.runs.policy import is_nothing
from pydantic import Field

ActionKind = Literal["approval", "input"]
"""A yes or no; or words."""

About = Literal["call", "outcome", "input", "output"]
"""What it is about: a tool call that is to be executed, one of which nobody knows what it did, the
Run's input, or its output."""

Verdict = Literal["approved", "rejected", "answered", "expired", "cancelled"]
"""What a person decided; or that nobody did in time, or before the Run ended."""


class Resolution(Frozen):
    """How an action was resolved; once."""

    verdict: Verdict
    by: str = ""
    """Who decided, as the client said."""
    note: str = ""
    """What the person adds; the model reads it."""
    answer: str | None = None
    arguments: str | None = None
    """The text of a JSON object: what the call is executed with instead."""
    at: datetime | None = None


class Action(Frozen):
    """Something that a Run waits for a person to decide."""

    action_id: str
    """Unique in its Run."""
    kind: ActionKind
    about: About = "call"
    call_id: str | None = None
    name: str
    """The tool, or the agent whose input or output it is."""
    arguments: str = ""
    """The text of a JSON object, in full: what the tool would get. Empty for other than calls."""
    reason: str = ""
    """Why a person is asked, or what."""
    choices: tuple[str, ...] = ()
    """The answers to choose from; free text when there are none."""
    digest: str
    """SHA-256, in hex: what a decision is bound to."""
    asked_at: datetime
    expires_at: datetime | None = None
    """When it is resolved as `expired`, which is a no."""
    resolution: Resolution | None = None

    @property
    def is_open(self) -> bool:
        """True while a person is to decide."""
        return self.resolution is None

    @property
    def is_approved(self) -> bool:
        """True when a person said yes."""
        return self.resolution is not None and self.resolution.verdict == "approved"

    def resolved(self, resolution: Resolution) -> "Action":
        """Return the action as decided."""
        return self.model_copy(update={"resolution": resolution})


class Approved(Frozen):
    """A person's yes, as it is handed to whatever executes the call."""

    action_id: str
    digest: str
    """Of the arguments that were approved: the edited ones, where the person edited them."""
    by: str = ""
    edited: bool = Field(False, exclude_if=is_nothing)


def digest_of(run_id: str, action_id: str, name: str, arguments: str) -> str:
    """Return what a decision is bound to, as SHA-256 in hex."""
    bound = [run_id, action_id, name, arguments]
    return hashlib.sha256(canonical_json(bound)).hexdigest()
