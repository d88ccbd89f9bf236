"""Fixtures of tests that watch Runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.client.live.source import Source, source_of
from tests.conftest import free_port
from tests.harness.engine import Engine
from tests.harness.redis import RedisServer, is_installed


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A real Redis of the test's own."""
    if not is_installed():
        pytest.skip("there is no redis-server on this machine (Debian: apt install redis-server)")
    server = RedisServer(free_port(), tmp_path)
    await server.start()
    yield server
    await server.kill()


@pytest.fixture
def through_redis(engine: Engine, redis: RedisServer) -> Source:
    """Worker and watcher of the test have Redis, as the settings say."""
    engine.settings.redis_url = redis.url
    engine.manager.source = source_of(engine.client, engine.settings)
    return engine.manager.source


@pytest.fixture(params=["heartbeats", "redis"])
def source(request: pytest.FixtureRequest, engine: Engine) -> Source:
    """Either transport of deltas; the manager of the test has it too."""
    if request.param == "redis":
        request.getfixturevalue("through_redis")
    return engine.manager.source
