"""Names of things: Runs, Steps, calls, Sessions.

A Run's id *is* its Temporal workflow id; nothing translates between the two. A Step's number
*is* its Temporal activity id (`"1"`, `"2"`, …), counted over the whole Run, across
continue-as-new.
"""

import hashlib
import re
from typing import Annotated

from pydantic import StringConstraints

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"
"""Allowed in ids given by people: visible in URLs, shells and Temporal queries unquoted."""

Name = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
"""An id or name given by a person: 1 to 128 letters, digits and `. _ : @ -`."""


def is_valid_id(text: str) -> bool:
    """Tell whether `text` may name a Run, a Session or an agent."""
    return re.fullmatch(ID_PATTERN, text) is not None


def child_run_id(run_id: str, step: int) -> str:
    """Return the id of the Run that a Step of another Run is."""
    plain = f"{run_id}.{step}"
    if is_valid_id(plain):
        return plain
    return f"run_{hashlib.sha256(plain.encode()).hexdigest()[:20]}"


def step_of(activity_id: str) -> int:
    """Return the Step number that a Temporal activity id stands for."""
    return int(activity_id)
