"""The output of a Run as a value of a type of its caller's."""

from typing import TYPE_CHECKING, TypeVar

from perdure.runs.errors import OutputInvalid
from perdure.runs.model_json import problems
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from perdure.runs.run import Run

T = TypeVar("T")


def value_of(run: "Run", kind: type[T]) -> T:
    """Return the output as a value of a type that pydantic knows.

    Raises:
        OutputInvalid: When the Run has no output, or one that is not of that type.
    """
    if run.output is None:
        raise OutputInvalid(f"Run {run.run_id!r} is {run.status} and has no output.")
    try:
        return TypeAdapter(kind).validate_json(run.output)
    except ValidationError as exc:
        name = getattr(kind, "__name__", kind)
        why = f"The output of Run {run.run_id!r} is no {name}: {problems(exc)}."
        raise OutputInvalid(why, hint="Ask for it when the Run starts.") from exc
