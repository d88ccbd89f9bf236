"""Fixtures: the gateway as `perdure serve` runs it, on a free port, over a real Temporal server."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from temporalio.client import Client

from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.gateway.serve import Server, address, listen, server, stop
from tests.harness.engine import Engine

NODE = Path(__file__).with_name("node")


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves.

    Attributes:
        url: Its address.
        server: The server itself, in this process.
    """

    url: str
    server: Server

    async def stop(self) -> None:
        """Stop it, as a signal does."""
        await stop(self.server)

    @property
    def requests(self) -> int:
        """Requests that are being answered."""
        return len(self.server.server_state.tasks)


@asynccontextmanager
async def gateway_of(manager: RunManager, settings: Settings) -> AsyncIterator[Gateway]:
    """Serve the gateway for the length of the block."""
    with listen("127.0.0.1", 0) as listening:
        running = server(settings, manager)
        serving = asyncio.create_task(running.serve(sockets=[listening]))
        try:
            yield Gateway(address(listening), running)
        finally:
            await stop(running)
            await serving


@asynccontextmanager
async def http_client(url: str, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client that takes its time: so may the machine."""
    async with httpx2.AsyncClient(base_url=url, timeout=120, **options) as client:
        yield client


@pytest.fixture(scope="session")
async def idle(client: Client) -> AsyncIterator[Gateway]:
    """A gateway that no worker is behind: for what is refused before one is asked."""
    async with gateway_of(RunManager(client, "nobody"), Settings(task_queue="nobody")) as serving:
        yield serving


@pytest.fixture(scope="session")
async def refusing(idle: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of that gateway."""
    async with http_client(idle.url) as client:
        yield client


@pytest.fixture
async def gateway(engine: Engine) -> AsyncIterator[Gateway]:
    """A gateway in front of the engine's workers."""
    async with gateway_of(engine.manager, engine.settings) as serving:
        yield serving


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of that gateway."""
    async with http_client(gateway.url) as client:
        yield client


@pytest.fixture(scope="session")
def node() -> str:
    """Node, with what `node/package.json` names installed from npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    with Path(tempfile.gettempdir(), "perdure-tests-npm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes share the tests
        if not (NODE / "node_modules/axe-core").exists():
            done = subprocess.run(install, cwd=NODE, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own
            if done.returncode and not os.environ.get("CI"):
                pytest.skip(f"npm can't install them: {done.stderr[-300:]}")
            assert done.returncode == 0, done.stderr
    return node
