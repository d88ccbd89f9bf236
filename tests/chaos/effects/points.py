"""The named points of a tool call at which its worker dies, and the calls of a plan."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

EFFECTS = {"read": "look", "keyed": "put", "unsafe": "pay"}
"""The tool of each."""


class Point(StrEnum):
    """Where the worker dies, in the order in which a call comes by."""

    APPROVED = "approved"
    """A person has said yes, and the workflow is about to start the call: Temporal knows of
    neither yet. Every second call at the other points waited for a person, too."""
    PICKED_UP = "picked-up"
    """The worker has the call, and has done nothing."""
    BEFORE_EFFECT = "before-effect"
    """Inside the tool."""
    AFTER_EFFECT = "after-effect"
    """Inside the tool, which has not returned."""
    RETURNED = "returned"
    """The result is there, and nobody has been told."""


@dataclass(frozen=True)
class Doomed:
    """A call that brings its worker to a point and dies with it there, once. Its own Run has it."""

    effect: str
    point: Point
    number: int
    gated: bool
    """Whether a person is asked before."""
    wave: str
    """The calls that die with one worker."""
    together: int
    """How many they are."""

    @property
    def entry(self) -> str:
        """What the tool writes; unique. Also the Run's id."""
        return f"{self.effect}_{self.point}_{self.number}"

    @property
    def arguments(self) -> dict[str, Any]:
        """Return what the tool is called with."""
        return {
            "entry": self.entry,
            "point": self.point.value,
            "gated": self.gated,
            "wave": self.wave,
            "together": self.together,
        }


def waves(kills: int, together: int) -> list[list[Doomed]]:
    """Return the calls of a plan, by the worker that they die with.

    Args:
        kills: Calls that die, of each effect: spread evenly over the points.
        together: How many of them one worker takes with it.
    """
    of_each = -(-kills // len(Point))
    calls = [
        # Every second one has been approved; at the first point, all.
        (effect, point, number, point is Point.APPROVED or number % 2 == 1)
        for point in Point
        for number in range(of_each)
        for effect in EFFECTS
    ]
    groups = [calls[at : at + together] for at in range(0, len(calls), together)]
    return [
        [Doomed(*call, wave=f"wave-{number}", together=len(group)) for call in group]
        for number, group in enumerate(groups)
    ]
