"""Queries of requests; an unknown parameter is refused."""

from typing import Annotated

from pydantic import Field

from perdure.client.listing import RunFilter
from perdure.gateway.access import Caller
from perdure.gateway.given import Given, Moment
from perdure.gateway.ids import scoped_name
from perdure.gateway.shapes import Seconds
from perdure.gateway.streaming.following import Format
from perdure.runs.ids import Name
from perdure.runs.status import RunStatus

MAX_LIMIT = 1_000
MAX_NUMBER = 2_147_483_647
"""Of an Event or a Step."""

Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


class Page(Given):
    """Which part of a list."""

    limit: Limit = 20
    """At most so many."""
    cursor: Annotated[str, Field(max_length=2_000)] | None = None
    """The `next_cursor` of the page before."""


class ListRuns(Page):
    """Which Runs; what is not set does not restrict."""

    status: RunStatus | None = None
    agent: Name | None = None
    session_id: Name | None = None
    waiting: bool = False
    """Only those that wait for a person."""
    top_level: bool = False
    """Only those that no other Run has called."""
    created_after: Moment | None = None
    created_before: Moment | None = None

    def chosen(self, caller: Caller) -> RunFilter:
        """Return which Runs a caller asks for."""
        mine = mine_only(caller, self.session_id)
        return mine.model_copy(update=self.model_dump(exclude={"session_id", "limit", "cursor"}))


class ListActions(Page):
    """What waits for a person, of which Runs."""

    agent: Name | None = None
    session_id: Name | None = None
    """With the Runs that its Runs have called."""


class WaitFor(Given):
    """How long to wait."""

    timeout_s: Seconds = 30.0


class ReadEvents(Given):
    """Which Events."""

    starting_after: Annotated[str, Field(max_length=60)] = "-1"
    """The position that you have got to: an Event's number, -1 for none. `Last-Event-ID` wins."""
    limit: Limit = 100
    """At most so many, in a page."""
    format: Format | None = None
    """In place of what the header `Accept` says."""


class ReadSteps(Given):
    """Which Steps."""

    starting_after: Annotated[int, Field(ge=0, le=MAX_NUMBER)] = 0
    """The number of the last Step that you have."""
    limit: Limit = 100
    """At most so many."""


class ReadTree(Given):
    """Which Runs of a tree."""

    running_only: bool = False
    """Leave out the Runs that have ended."""


def mine_only(caller: Caller, session_id: str | None = None) -> RunFilter:
    """Return the filter for the Runs of a caller, or those of one Session of theirs."""
    given = scoped_name(caller, "session", session_id) if session_id is not None else None
    return RunFilter(session_id=given, id_prefix=caller.scoped("") or None)
