"""A second server, on which everything that bounds a Session comes soon."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DYNAMIC_CONFIG, DevServer
from tests.conftest import free_port
from tests.harness.engine import Engine
from tests.harness.scripted_openai import ScriptedOpenAI

STRICT = DYNAMIC_CONFIG | {
    "limit.historyCount.suggestContinueAsNew": 100,
    "history.maxInFlightUpdates": 2,
    "history.maxTotalUpdates": 40,
    # A deletion waits for what was done before it to be noted, by default every 30 s.
    "history.transferProcessorUpdateAckInterval": '"1s"',
    "history.visibilityProcessorUpdateAckInterval": '"1s"',
    # The clock of a workflow may be put forward.
    "frontend.WorkflowTimeSkippingEnabled": "true",
}


@pytest.fixture(scope="session")
async def strict(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A client of a server with limits that are a fraction of Temporal's."""
    folder: Path = tmp_path_factory.mktemp("strict")
    server = DevServer(Address("127.0.0.1", free_port()), folder, STRICT)
    with pytest.MonkeyPatch.context() as env:
        env.setenv("TEMPORAL_ADDRESS", str(server.address))
        env.setenv("PERDURE_STORAGE_DIR", str(folder / "storage"))
        await server.start()
        client = await connect()
        await register_search_attributes(client)
    yield client
    await server.stop()


@pytest.fixture
async def strict_engine(
    strict: Client, model: ScriptedOpenAI, request: pytest.FixtureRequest
) -> Engine:
    """What `engine` is, on that server."""
    return Engine(strict, model, f"queue-{request.node.name}")
