"""Where what Steps say before they end comes from."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from temporalio.client import Client

from perdure.client.follow import pending_steps
from perdure.engine.redis import redis_of
from perdure.engine.settings import Settings
from perdure.runs.errors import PerdureError

if TYPE_CHECKING:
    from perdure.client.live.run import LiveRun

LOOK_EVERY_S = 0.2
"""As often as workers tell (`TICK_S`)."""
IDLE_S = 1.3
"""How much longer they are left alone while Redis tells the same sooner."""
LOOKS_PER_S = 200
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
        idle_s: How much longer it is left alone while it tells nothing new and is not needed.
    """

    def __init__(
        self, client: Client, every_s: float = LOOK_EVERY_S, idle_s: float = IDLE_S
    ) -> None:
        self._client = client
        self._every_s = every_s
        self._idle_s = idle_s
        self.needed = asyncio.Event()
        """Set while nothing else tells what Steps say."""
        self.needed.set()
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
                is_news = await self.look(live)
                await asyncio.sleep(max(self._every_s, self._listening / LOOKS_PER_S))
                if not is_news:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._idle_s):
                            await self.needed.wait()
            finally:
                self._listening -= 1

    async def look(self, live: "LiveRun") -> bool:
        """Let a live Run hear what its Steps have said until now; tell whether it was news."""
        try:
            told = await pending_steps(self._client, live.run_id)
        except PerdureError:
            return False  # drafts are a nicety: whoever follows the history knows what is wrong
        news = [live.hear(each) for each in told]
        return any(news)


def source_of(client: Client, settings: Settings) -> Source:
    """Return the source that is configured: one serves all live Runs of a process.

    Raises:
        ConfigurationError: When PERDURE_REDIS_URL can't be used.
    """
    opened = redis_of(settings)
    if opened is None:
        return Heartbeats(client)
    from perdure.client.live.redis import RedisStreams

    return RedisStreams(client, opened)
