"""The health of real workers: what they say of themselves is what Temporal sees."""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import DevServer
from tests.conftest import free_port
from tests.e2e.ledger import Ledger, Worker, workers
from tests.harness.engine import Engine
from tests.harness.processes import Process, ended, said
from tests.harness.scripted_openai import ScriptedOpenAI, call, text, tool_calls

RED_WITHIN_S = 60
RESUMED_WITHIN_S = 30
"""What is promised; a quiet machine needs a tenth of it."""


class Probe:
    """Asks a worker for its health as an orchestrator would."""

    def __init__(self, address: str) -> None:
        self.address = address

    async def get(self, path: str) -> tuple[int, str]:
        """Return the status and the reason."""
        async with httpx2.AsyncClient(timeout=20) as http:
            answer = await http.get(self.address + path)
        return answer.status_code, answer.json().get("reason", "")

    async def until_ready_is(self, status: int, within_s: float) -> str:
        """Wait until readiness has this status; return the reason.

        Raises:
            TimeoutError: When it does not have it in time.
        """
        async with asyncio.timeout(within_s):
            while True:
                found, reason = await self.get("/readyz")
                if found == status:
                    return reason
                await asyncio.sleep(0.1)


async def probed(process: Process) -> Probe:
    """Wait until a worker is ready; return what asks for its health."""
    heard = await said(process, "Worker ready")
    address = re.search(r"Health: (http://\S+)/readyz", heard)
    assert address, heard
    return Probe(address[1])


class Outage:
    """A Temporal server that tests stop, kill and start again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = Address("127.0.0.1", free_port())
        self.server = self._new()

    def _new(self) -> DevServer:
        return DevServer(self._address, self._folder)

    def send(self, sent: signal.Signals) -> None:
        """Send the server's process a signal."""
        os.kill(int((self._folder / "temporal.pid").read_text()), sent)

    async def come_back(self) -> None:
        """Start the server again, on the same database."""
        self.server = self._new()
        await self.server.start()


@pytest.fixture
async def outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outage]:
    found = Outage(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", str(found.server.address))
    await found.server.start()
    yield found
    await found.server.stop()


@pytest.fixture
async def engine(outage: Outage, model: ScriptedOpenAI) -> Engine:
    """An engine on a server that has outages."""
    client = await connect()
    await register_search_attributes(client)
    return Engine(client, model, "queue")


@pytest.fixture
def worker(engine: Engine) -> Worker:
    """Return what starts a worker with a health endpoint."""
    return workers(engine, "--health-port", "0")


async def test_a_worker_is_red_while_temporal_is_away_and_goes_on_when_it_is_back(
    outage: Outage, engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    engine.model.script([tool_calls(call("look", ledger.entry("one"))), text("Done.")])
    async with worker() as process:
        probe = await probed(process)
        assert await probe.get("/healthz") == (200, "")
        assert await probe.get("/readyz") == (200, "")
        outage.send(signal.SIGSTOP)
        assert "Temporal does not answer" in await probe.until_ready_is(503, RED_WITHIN_S)
        assert await probe.get("/healthz") == (200, ""), "restarting it would help nobody"
        outage.send(signal.SIGCONT)
        await probe.until_ready_is(200, RESUMED_WITHIN_S)
        run_id = await engine.start("clerk")
        await ledger.written()
        outage.send(signal.SIGKILL)
        assert "Temporal does not answer" in await probe.until_ready_is(503, RED_WITHIN_S)
        ledger.open()
        await outage.come_back()
        back_at = time.monotonic()
        await probe.until_ready_is(200, RESUMED_WITHIN_S)
        await engine.model.wait_for_requests(2, timeout_s=RESUMED_WITHIN_S)
        assert time.monotonic() - back_at < RESUMED_WITHIN_S
        run = await engine.ended(run_id)
    assert run.output == "Done."


async def test_a_worker_is_red_while_it_drains(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    engine.model.script([tool_calls(call("look", ledger.entry("one")))])
    async with worker(grace_s="600") as process:
        probe = await probed(process)
        await engine.start("clerk")
        await ledger.written()
        process.send_signal(signal.SIGTERM)
        await said(process, "Stopping")
        assert await probe.get("/readyz") == (503, "It is being stopped.")
        assert await probe.get("/healthz") == (200, "")
        ledger.open()
        assert await ended(process) == 0


async def test_a_worker_without_temporal_ends_with_an_error_instead_of_idling(
    outage: Outage, engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    engine.model.script([tool_calls(call("insist", ledger.entry("one")))])
    async with worker(give_up_s="3", grace_s="1") as process:
        await said(process, "Worker ready")
        await engine.start("clerk")
        await ledger.written()
        outage.send(signal.SIGKILL)
        assert await ended(process) == 6
