"""What it does to a Run when whoever asked goes away, or the gateway stops."""

import asyncio
from functools import partial

import httpx2

from perdure import Agent
from tests.gateway.conftest import Gateway, gateway_of, http_client
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="waiter")
WAITS = {"agent": "waiter", "input": "Wait.", "wait": True, "wait_timeout_s": 100}


async def answering(gateway: Gateway, requests: int) -> bool:
    return gateway.requests == requests


async def test_whoever_goes_away_cancels_only_what_they_asked_to_cancel(
    engine: Engine, gateway: Gateway, http: httpx2.AsyncClient
) -> None:
    """GATE-05, for those who wait."""
    gate = Gate(timeout_s=60)
    engine.model.script([text("Never.").hold(gate)])
    key = {"Idempotency-Key": engine.task_queue}
    leaves = WAITS | {"on_disconnect": "cancel"}
    async with engine.serving(AGENT):
        leaving = asyncio.create_task(http.post("/v1/runs", json=leaves, headers=key))
        await gate.reached
        # Somebody who asks for the very same Run, and leaves, is only a viewer less.
        viewing = asyncio.create_task(http.post("/v1/runs", json=leaves, headers=key))
        await soon(partial(answering, gateway, 2))
        viewing.cancel()
        await soon(partial(answering, gateway, 1))
        background = {name: WAITS[name] for name in ("agent", "input")}
        run = (await http.post("/v1/runs", json=background, headers=key)).json()
        assert (run["status"], run["cancel"]) == ("running", None)
        leaving.cancel()
        await soon(partial(answering, gateway, 0))
        async with asyncio.timeout(20):
            await engine.model.requests[0].disconnected.wait()
    assert len(engine.model.requests) == 1


async def test_a_run_goes_on_when_whoever_waits_for_it_goes_away(
    engine: Engine, gateway: Gateway, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Here.").hold(gate)])
    key = {"Idempotency-Key": engine.task_queue}
    async with engine.serving(AGENT):
        leaving = asyncio.create_task(http.post("/v1/runs", json=WAITS, headers=key))
        await gate.reached
        leaving.cancel()
        await soon(partial(answering, gateway, 0))
        gate.open()
        again = await http.post("/v1/runs", json=WAITS, headers=key)
        assert again.json()["output"] == "Here."
        assert again.headers["idempotency-replayed"] == "true"
        await engine.ended(again.json()["run_id"])


async def test_a_gateway_that_stops_answers_those_who_wait_and_cancels_nothing(
    engine: Engine,
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Here.").hold(gate)])
    async with engine.serving(AGENT):
        async with gateway_of(engine.manager, engine.settings) as gateway:
            async with http_client(gateway.url) as http:
                leaves = WAITS | {"on_disconnect": "cancel"}
                waiting = asyncio.create_task(http.post("/v1/runs", json=leaves))
                await gate.reached
                gateway.server.config.app.state.stopping.set()
                answer = await waiting
        assert (answer.status_code, answer.json()["status"]) == (202, "running")
        gate.open()
        assert (await engine.ended(answer.json()["run_id"])).output == "Here."
