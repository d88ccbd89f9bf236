"""Events of a Run in pages: what there is now, without waiting for more."""

from temporalio.client import Client

from perdure.client import history
from perdure.runs.events import Event
from perdure.runs.frozen import Frozen


class EventPage(Frozen):
    """Some Events of a Run, in order."""

    events: tuple[Event, ...]
    has_more: bool
    """There are more already: ask again, starting after the last of these."""


async def event_page(client: Client, run_id: str, starting_after: int, limit: int) -> EventPage:
    """Return the Events numbered above `starting_after` that have happened, at most `limit`.

    The last Event of a Run that has ended carries the whole Run.

    Raises:
        RunNotFound: When there is no such Run.
        EventsExpired: When Temporal has deleted the Events that would come next.
        EngineUnavailable: When Temporal does not answer.
    """
    found: list[Event] = []
    async for event in history.follow(client, run_id, starting_after, wait=False):
        if len(found) == limit:
            return EventPage(events=tuple(found), has_more=True)
        found.append(event)
    return EventPage(events=tuple(found), has_more=False)
