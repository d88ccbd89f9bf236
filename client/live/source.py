"""Where what Steps say before they end comes from."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from temporalio.client import Client

from perdure.client.follow import pending_steps
from perdure.runs.errors import PerdureError

if TYPE_CHECKING:
    from perdure.client.live.run import LiveRun

LOOK_EVERY_S = 0.2
"""As often as workers tell (`TICK_S`)."""
LOOKS_PER_S = 150
"""By one source at most: with more Runs than this allows for, each is looked at less often. A look
takes a server of one core about 2 ms."""


class Source(Protocol):
    """Lets live Runs hear what their Steps say."""

    async def listen(self, live: "LiveRun") -> None:
        """Let a live Run hear, until it is over."""


class Heartbeats:
    """What workers put into their heartbeats: nothing to install, nothing in the history.

    Args:
        client: Connected with our data converter.
        every_s: How often it is looked at, in seconds.
    """

    def __init__(self, client: Client, every_s: float = LOOK_EVERY_S) -> None:
        self._client = client
        self._every_s = every_s
        self._listening = 0
        """Live Runs that are looked at now."""

    async def listen(self, live: "LiveRun") -> None:
        """Look at the Run's Steps while some of them run."""
        while not live.is_over:
            if not live.heard_steps():
                await live.happens()
                continue
            self._listening += 1
            try:
                await self._look(live)
                await asyncio.sleep(max(self._every_s, self._listening / LOOKS_PER_S))
            finally:
                self._listening -= 1

    async def _look(self, live: "LiveRun") -> None:
        try:
            for told in await pending_steps(self._client, live.run_id):
                live.hear(told)
        except PerdureError:
            pass  # drafts are a nicety: whoever follows the history knows what is wrong
