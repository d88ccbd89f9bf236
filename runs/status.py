"""The six statuses of a Run, and which may follow which.

Everything that may change a status stands in `TRANSITIONS`; a pair that is not in the table
is illegal and raises in `Run.apply`. The picture in ARCHITECTURE.md is made from the table.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from perdure.runs.frozen import Frozen
from pydantic import Field


class RunStatus(StrEnum):
    """Where a Run stands. What a running Run waits for is in `waiting_on`, not here."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_terminal(self) -> bool:
        """True when the Run has ended; only a person can make it go on then."""
        return self not in (RunStatus.PENDING, RunStatus.RUNNING)


TRANSITIONS: dict[RunStatus, tuple[RunStatus, ...]] = {
    RunStatus.PENDING: (
        RunStatus.RUNNING,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.TIMEOUT,
    ),
    RunStatus.RUNNING: (
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.TIMEOUT,
    ),
    RunStatus.COMPLETED: (),
    # Resumed, under the same id.
    RunStatus.FAILED: (RunStatus.RUNNING,),
    RunStatus.CANCELLED: (RunStatus.RUNNING,),
    RunStatus.TIMEOUT: (RunStatus.RUNNING,),
}


class StopReason(StrEnum):
    """Why a Run ended."""

    END_TURN = "end_turn"
    MAX_TURNS = "max_turns"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_TOKENS = "max_tokens"
    MAX_COST = "max_cost"
    MAX_IDENTICAL_CALLS = "max_identical_calls"
    MAX_OUTPUT = "max_output"
    DEADLINE = "deadline"
    QUEUE_EXPIRED = "queue_expired"
    USER_CANCEL = "user_cancel"
    SUPERSEDED = "superseded"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    ERROR = "error"
    TERMINATED = "terminated"


class WaitingOn(Frozen):
    """What a running Run waits for; nobody should have to ask why a Run sits there."""

    type: Literal["approval", "input", "retry", "queue", "pause", "child", "limit", "worker"]
    since: datetime | None = None
    expires_at: datetime | None = None
    """When the wait ends by itself; for a retry, when the next attempt starts."""
    queue_position: int | None = None
    detail: str = ""
    action_ids: tuple[str, ...] = Field((), exclude_if=lambda ids: not ids)
    """What people are to decide; see `perdure approvals`."""
