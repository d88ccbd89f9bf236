"""How Redis is reached, where it is configured. Needs the extra `redis`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError

if TYPE_CHECKING:
    from redis.asyncio import Redis

ANSWER_S = 1.0
"""How long it may take to answer. It is beside the way: whoever waits has heartbeats meanwhile."""
SCHEMES = ("redis://", "rediss://", "unix://")

OpenRedis = Callable[[], "Redis"]
"""Returns a client of one's own, to be closed; it connects when it is first used."""


def redis_of(settings: Settings) -> OpenRedis | None:
    """Return how the configured Redis is opened; none where none is configured.

    Raises:
        ConfigurationError: When its URL is unusable, or the extra `redis` is not installed.
    """
    if settings.redis_url is None:
        return None
    url = settings.redis_url.get_secret_value()
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError:
        raise ConfigurationError(
            "PERDURE_REDIS_URL is set, and the client of Redis is not installed.",
            hint="pip install 'perdure[redis]', or unset it: deltas then go by heartbeat.",
        ) from None

    def opened() -> Redis:
        return Redis.from_url(
            url,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),  # whoever uses it knows better when to try again
            protocol=2,  # one answer a command, and nothing that comes by itself
            decode_responses=True,
        )

    try:
        if not url.startswith(SCHEMES):
            raise ValueError
        # It looks at all options, and connects to nothing yet.
        opened().connection_pool.make_connection()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError):
        # What is wrong with it may be the password, so it is not said.
        raise ConfigurationError(
            "PERDURE_REDIS_URL is not a URL of Redis.",
            hint="redis://:password@host:6379/0, rediss:// for TLS; what is special in a "
            "password is written as %23.",
        ) from None
    return opened
