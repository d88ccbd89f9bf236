"""JSON that a model wrote: untrusted, and exact.

What pydantic, Python or a reader of the history would silently make something else of is refused.
"""

import json
from decimal import Decimal
from math import isfinite
from typing import Any

from pydantic import ValidationError

SHOWN_ERRORS = 3
"""Validation errors told to the model at once."""


def parsed(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: When it is none, or holds a number that would not be kept as it is.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError as exc:
        raise ValueError("it has too many levels") from exc


def problems(exc: ValidationError) -> str:
    """Return what pydantic found wrong, as the model reads it: places and reasons, no values."""
    found = [
        ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
        for problem in exc.errors(include_url=False, include_input=False)[:SHOWN_ERRORS]
    ]
    return "; ".join(found)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"{number} is too large")
    if 2**53 <= abs(value) < 2**63 and Decimal(number) != Decimal(value):
        # As a whole number it would be another one, silently.
        raise ValueError(f"{number} has more digits than are kept; write it without . and e")
    return value
