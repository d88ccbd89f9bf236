"""How much history a Run leaves: events and bytes a turn, and whether that grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.stage import Stage


@dataclass(frozen=True)
class History:
    """The size of one Run's history."""

    turns: int
    events: int
    bytes: int
    """Sum of the sizes of all events as protobuf, as the server sends them to clients."""
    server_bytes: int
    """What the server itself counts towards its limits."""


@dataclass(frozen=True)
class Growth:
    """A history beside the next shorter one: what each of the turns between them added."""

    shorter: History
    longer: History

    @property
    def bytes_a_turn(self) -> float:
        """Bytes that each further turn added."""
        return (self.longer.bytes - self.shorter.bytes) / (self.longer.turns - self.shorter.turns)

    @property
    def events_a_turn(self) -> float:
        """Events that each further turn added."""
        return (self.longer.events - self.shorter.events) / (self.longer.turns - self.shorter.turns)


async def measured(stage: Stage, turns: int) -> History:
    """Execute one Run and size its history."""
    run_id = await stage.run(turns)
    handle = stage.client.get_workflow_handle(run_id)
    events = [event async for event in handle.fetch_history_events()]
    described = await handle.describe()
    return History(
        turns=turns,
        events=len(events),
        bytes=sum(event.ByteSize() for event in events),
        server_bytes=described.raw_description.workflow_execution_info.history_size_bytes,
    )


def growths(histories: Sequence[History]) -> list[Growth]:
    """Return each history beside the one before it."""
    return [Growth(shorter, longer) for shorter, longer in pairwise(histories)]
