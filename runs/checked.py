"""What the checks of an agent did to a model call, as its Step keeps it."""

from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from perdure.runs.usage import ModelUsage
from pydantic import Field


class Checked(Frozen):
    """What checks did, besides letting pass."""

    inputs: tuple[str, ...] = Field((), exclude_if=is_nothing)
    """What the model is told instead of the inputs that had not been checked, one for each; empty
    when they stay as they are. Nothing was sent then: the next Step does."""
    changed_by: str = Field("", exclude_if=is_nothing)
    """The check that changed the answer's text last."""
    usage: tuple[ModelUsage, ...] = Field((), exclude_if=is_nothing)
    """What checks used that asked a model."""
