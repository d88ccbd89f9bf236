"""Which Trace a Run is in, and its place there: known from the Run alone.

Ids are derived, not drawn: every worker that executes a Step of a Run, before or behind a restart,
a continue-as-new or a resumption, knows the same ones without asking. Formats are those of
https://www.w3.org/TR/trace-context/: 32 and 16 lower-case hexadecimal digits, not all zero.
"""

import hashlib
import re
from datetime import datetime
from typing import Annotated, Self

from perdure.runs.frozen import Frozen
from pydantic import Field, StringConstraints

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
SAMPLED = 1

TraceId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
SpanId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class TraceContext(Frozen):
    """The span that a Run is part of: of whoever started it."""

    trace_id: TraceId
    span_id: SpanId
    sampled: bool | None = Field(None, exclude_if=lambda sampled: sampled is None)
    """Whether its Trace is recorded; none where that is for the worker to say."""

    @classmethod
    def parsed(cls, traceparent: str) -> Self | None:
        """Read a `traceparent` header; none when it is not one, as the standard asks."""
        found = TRACEPARENT.fullmatch(traceparent.strip())
        if found is None or traceparent.startswith("ff"):
            return None
        trace_id, span_id, flags = found.group(1, 2, 3)
        if not int(trace_id, 16) or not int(span_id, 16):
            return None
        return cls(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & SAMPLED))


def trace_of(run_id: str, part_of: TraceContext | None) -> str:
    """Return the id of a Run's Trace: its caller's, or else its own."""
    return part_of.trace_id if part_of is not None else _derived("trace", run_id, 32)


def span_of(run_id: str, resumed_at: datetime | None) -> str:
    """Return the id of the span that a Run is, since it was started or last resumed."""
    again = f" {resumed_at.isoformat()}" if resumed_at is not None else ""
    return _derived("span", run_id + again, 16)


def _derived(kind: str, text: str, digits: int) -> str:
    found = hashlib.sha256(f"perdure {kind} {text}".encode()).hexdigest()[:digits]
    return found if int(found, 16) else found[:-1] + "1"
