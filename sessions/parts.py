"""What a Session is made of: its settings, what it knows of its Runs and of what was asked for."""

from datetime import datetime

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.limits import Level
from perdure.runs.policy import is_nothing
from perdure.runs.start import RunStart
from perdure.runs.usage import Usage

DEFAULT_IDLE_S = 30 * 24 * 3600.0
"""How long a Session lives after its last Run."""
DEFAULT_MAX_QUEUED = 20


class SessionSettings(Level):
    """How much a Session may use, and how long it lives; `None` means: as before, or default."""

    max_tokens: PositiveInt | None = None
    """Input plus output tokens of all its Runs; unlimited by default."""
    max_cost: PositiveFloat | None = None
    """USD, of all its Runs; unlimited by default."""
    max_queued: NonNegativeInt | None = None
    """Runs that may wait for their turn; 20 by default."""
    idle_s: PositiveFloat | None = None
    """How long it lives without a Run; 30 days by default. Its conversation goes with it."""


class Key(Frozen):
    """An idempotency key that was used."""

    key: str
    digest: str
    """Of the request that came with it."""
    run_id: str
    """The Run to follow."""
    own_id: str
    """The Run that was asked for; another one, where that was said to the active Run."""
    at: datetime


class Steering(Frozen):
    """Something that was said to the active Run; a Run of its own, if that one ends first."""

    run_id: str
    start: RunStart


class Waiting(Frozen):
    """A Run that waits for its turn."""

    run_id: str
    since: datetime
    start: RunStart | None = None
    """Set when its workflow is to be started only then."""


class Interrupter(Frozen):
    """A Run that takes the place of the active one, or of another that was to take it."""

    run_id: str
    since: datetime
    said: str
    """Its input: said before that of the Run that has its turn instead."""
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)
    """What that came with."""
    forgets: bool = False
    """What was said by then is not to be kept."""
    is_over: bool = False
    """It has ended, or was only something to be said."""

    @classmethod
    def of(cls, run_id: str, start: RunStart, since: datetime) -> "Interrupter":
        """Return a Run that is to take a place."""
        return cls(run_id=run_id, since=since, said=start.input, files=start.files)


class Latest(Frozen):
    """The Run that ended last, and how the Session was before it: it may be resumed."""

    run_id: str
    messages: int
    """How many there were; as many as there are, where it compacted them: it will again."""
    usage: Usage


class Active(Frozen):
    """The Run that has its turn."""

    run_id: str
    since: datetime
    resumes: Latest | None = None
    """Set where it goes on: what it left before is replaced once it has ended."""
    steering: tuple[Steering, ...] = ()
