"""Fixtures: one real Temporal dev server for the session, an engine for each test."""

import itertools
import os
import secrets
import socket
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from temporalio.client import Client

from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DevServer
from tests.harness.engine import Engine
from tests.harness.scripted_openai import ScriptedOpenAI
from tests.harness.sharing import Sharing

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

PORTS = range(20_000, 31_000)
"""Below those that Linux (from 32768) and macOS (from 49152) give to whoever names none: nobody
gets one of these between our look at it and the server's start, nor while a server is down."""
UI_PORTS = 1000
"""How far above its own port a server of ours may have another one."""
_taken: set[int] = set()

_numbers = itertools.count(1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    """Say how several processes share the tests."""
    return Sharing(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let half a character in a line of log be reported: processes tell each other UTF-8 only."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


def free_port() -> int:
    """Return a port that is free now, and whose UI port is as well; to nobody else before long.

    Two servers that start at once may both have been told their ports before either has them.
    """
    while True:
        port = PORTS.start + secrets.randbelow(len(PORTS))
        ours = {port, port + UI_PORTS}
        if not _is_of_this_process(port) or ours & _taken:
            continue
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + UI_PORTS))
            except OSError:
                continue
        _taken.update(ours)
        return port


def _is_of_this_process(port: int) -> bool:
    """Tell apart the ports of processes that share the tests: two of them never take one port."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return port % count == number


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> None:
    """Nobody's keys, profiles or .env decide what a test does."""
    for name in list(os.environ):
        if name.startswith(("TEMPORAL_", "PERDURE_", "OPENAI_", "OTEL_")):
            del os.environ[name]
    os.environ["TEMPORAL_CONFIG_FILE"] = os.devnull


@pytest.fixture(scope="session")
async def temporal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DevServer]:
    """The real dev server, started as `perdure dev` starts it."""
    folder: Path = tmp_path_factory.mktemp("temporal")
    server = DevServer(Address("127.0.0.1", free_port()), folder)
    os.environ["TEMPORAL_ADDRESS"] = str(server.address)
    os.environ["PERDURE_STORAGE_DIR"] = str(folder / "storage")
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def served_apart(
    folder: Path, model: ScriptedOpenAI, dynamic_config: Mapping[str, int | str]
) -> AsyncIterator[Engine]:
    """Run a server of its own while the block runs, for what no other test is to see."""
    server = DevServer(Address("127.0.0.1", free_port()), folder, dynamic_config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPORAL_ADDRESS", str(server.address))
        await server.start()
        try:
            client = await connect()
            await register_search_attributes(client)
            yield Engine(client, model, "queue")
        finally:
            await server.stop()


@pytest.fixture(scope="session")
async def client(temporal: DevServer) -> Client:
    connected = await connect()
    await register_search_attributes(connected)
    return connected


@pytest.fixture
async def model() -> AsyncIterator[ScriptedOpenAI]:
    """A scripted model endpoint, over real HTTP."""
    async with ScriptedOpenAI() as server:
        yield server


@pytest.fixture
async def engine(client: Client, model: ScriptedOpenAI) -> Engine:
    """Everything a Run needs but the agents: `async with engine.serving(agent): …`."""
    return Engine(client, model, f"queue-{os.getpid()}-{next(_numbers)}")
