"""What the checks of an agent did to a model call, as its Step keeps it."""

from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from perdure.runs.usage import ModelUsage
from pydantic import Field


class Judged(Frozen):
    """One call of a model that judged an input or an output."""

    judge: str
    """The agent that was asked."""
    about: str
    """What it judged: `input` or `output`."""
    passes: bool = False
    reason: str = ""
    """Why not, in the judge's words."""
    usage: ModelUsage


class Checked(Frozen):
    """What checks did, besides letting pass."""

    inputs: tuple[str, ...] = Field((), exclude_if=is_nothing)
    """What the model is told instead of the inputs that had not been checked, one for each; empty
    when they stay as they are. Nothing was sent then: the next Step does."""
    changed_by: str = Field("", exclude_if=is_nothing)
    """The check that changed the answer's text last."""
    judged: tuple[Judged, ...] = Field((), exclude_if=is_nothing)
    """What models said that were asked by checks: each becomes a Step of its own."""
