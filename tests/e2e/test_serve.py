"""`perdure serve`, as operators run it: up before Temporal, stopped in order, killed at will."""

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from perdure import Agent
from tests.conftest import free_port
from tests.harness.engine import Engine
from tests.harness.processes import Process, ended, output, perdure, said
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="server")
WAITS = {"agent": "server", "input": "Go.", "wait": True, "wait_timeout_s": 100}


@asynccontextmanager
async def serve(engine: Engine, **env: str) -> AsyncIterator[tuple[Process, httpx2.AsyncClient]]:
    """Run a gateway; yield its process and a client of it."""
    queue = {"PERDURE_TASK_QUEUE": engine.task_queue, "PERDURE_HTTP_PORT": "0"}
    async with perdure("serve", env=queue | env) as process:
        heard = await said(process, "Gateway: ")
        (url,) = re.findall(r"Gateway: ([^\s\"]+)", heard)
        async with httpx2.AsyncClient(base_url=url, timeout=120) as http:
            yield process, http


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_gateway_that_is_told_to_stop_answers_and_leaves_in_order(
    sent: signal.Signals, engine: Engine
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Goes on.").hold(gate)])
    async with engine.serving(AGENT), serve(engine) as (process, http):
        waiting = asyncio.create_task(http.post("/v1/runs", json=WAITS))
        await gate.reached
        process.send_signal(sent)
        answer = await waiting
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
        assert await ended(process, 20) == 0
        gate.open()
        assert (await engine.ended(answer.json()["run_id"])).output == "Goes on."


async def test_a_gateway_can_be_killed_between_a_start_and_its_answer(engine: Engine) -> None:
    """P24: what was started is found again by its key."""
    gate = Gate(timeout_s=60)
    engine.model.script([text("Once.").hold(gate)])
    key = {"Idempotency-Key": engine.task_queue}
    async with engine.serving(AGENT):
        async with serve(engine) as (process, http):
            waiting = asyncio.create_task(http.post("/v1/runs", json=WAITS, headers=key))
            await gate.reached
            process.kill()
            with pytest.raises(httpx2.TransportError):
                await waiting
        async with serve(engine) as (_, http):
            gate.open()
            answer = await http.post("/v1/runs", json=WAITS, headers=key)
            assert answer.json()["output"] == "Once."
            assert answer.headers["idempotency-replayed"] == "true"
            await engine.ended(answer.json()["run_id"])
    assert len(engine.model.requests) == 1


async def test_a_gateway_is_up_without_temporal_and_says_that_it_is_not_ready(
    engine: Engine,
) -> None:
    """P41."""
    away = f"127.0.0.1:{free_port()}"
    async with serve(engine, TEMPORAL_ADDRESS=away) as (process, http):
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).status_code == 503
        process.terminate()
        assert await ended(process, 20) == 0


async def test_a_port_that_is_taken_is_named_with_the_way_out(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        code, _, error = await output("serve", "--port", port)
    assert code == 6
    assert f"can't listen on 127.0.0.1:{port}" in error
    assert "--port" in error
    assert "Traceback" not in error
