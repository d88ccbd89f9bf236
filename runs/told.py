"""What a Step says before it ends, as it is written into Redis: one stream for each Step.

Two processes meet here, a worker and whoever reads, perhaps of different versions: fields are only
ever added, with defaults.
"""

from perdure.runs.deltas import Segment
from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from pydantic import Field

FIELD = "told"
"""The one field of an entry."""


class Told(Frozen):
    """One entry: what came of an attempt since the entry before it."""

    attempt: int
    offset: int = Field(0, exclude_if=is_nothing)
    """Characters of the attempt's log before `said`."""
    said: tuple[Segment, ...] = Field((), exclude_if=is_nothing)
    message: str = Field("", exclude_if=is_nothing)
    """What a tool says of how far it is."""
    fraction: float | None = Field(None, exclude_if=lambda fraction: fraction is None)
    """How much of its work is done, from 0 to 1."""


def stream_of(namespace: str, run_id: str, step: int) -> str:
    """Return the key of a Step's stream.

    Args:
        namespace: Of Temporal: Runs of two namespaces may have the same id.
        run_id: It may hold colons, so it is only unmistakable between two that hold none.
        step: Its number.
    """
    return f"perdure:{namespace.replace(':', '%3A')}:{run_id}:{step}"
