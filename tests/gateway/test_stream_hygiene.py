"""Streams over HTTP: what they must not cost, and must not tell."""

import asyncio
import os
from base64 import b64encode
from functools import partial
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from perdure import Agent, tool
from perdure.gateway.streaming import sse
from perdure.runs.status import RunStatus
from tests.gateway.conftest import Gateway
from tests.gateway.test_streams import SPEAKER
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls


async def test_a_follower_that_reads_nothing_costs_nothing_and_is_let_go(
    engine: Engine, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P26: what it does not take is not kept for it, and the Run does not wait."""
    monkeypatch.setattr(sse, "SLOW_S", 1.0)
    large = "x" * 400_000

    @tool(effect="read")
    def read(number: int) -> str:
        """Read."""
        return large[: 240_000 + number]

    engine.model.script(
        [*[tool_calls(call("read", {"number": n})) for n in range(12)], text("Done.")]
    )
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    async with engine.serving(Agent(name="reader", tools=[read])):
        run_id = await engine.start("reader")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        path = f"/v1/runs/{run_id}/events"
        asked = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(asked.encode())
        assert (await engine.ended(run_id)).status is RunStatus.COMPLETED

        async def is_let_go() -> bool:
            return gateway.requests == 0

        await soon(is_let_go)
        writer.close()


async def test_a_thousand_connections_leave_nothing_open(
    engine: Engine, http: httpx2.AsyncClient, gateway: Gateway
) -> None:
    """P26."""
    gate = Gate(120)
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    open_files = partial(os.listdir, Path("/proc/self/fd"))
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        host, _, port = gateway.url.removeprefix("http://").partition(":")
        path = f"/v1/runs/{run_id}/events"
        asked = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n"

        async def connect() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(asked.encode())
            await reader.readuntil(b"run.started")
            writer.transport.abort()

        async def all_are_gone() -> bool:
            return gateway.requests == 0

        await connect()
        await soon(all_are_gone)
        before = len(open_files())
        for _ in range(20):
            await asyncio.gather(*[connect() for _ in range(50)])
        await soon(all_are_gone)
        assert len(open_files()) <= before + 5
        gate.open()
        await engine.ended(run_id)


async def test_no_secret_is_in_a_stream_or_an_answer(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    """P34, SECU-10, SECU-11: a provider's refusal that quotes the key, in every encoding."""
    key = "test-key-1234"
    forms = [key, quote(f" {key} ").strip("%20"), b64encode(key.encode()).decode()]
    body = {"error": {"message": f"Incorrect API key provided: {', '.join(forms)}", "code": None}}
    engine.model.script([status(401, body)])
    async with engine.serving(SPEAKER):
        run = await engine.run("speaker")
    assert run.status is RunStatus.FAILED
    for accept in ("text/event-stream", "text/plain", "application/json"):
        found = await http.get(f"/v1/runs/{run.run_id}/events", headers={"Accept": accept})
        assert found.status_code == 200
        assert not [form for form in forms if form in found.text], accept
    for path in ("", "/steps", "/tree", "/events?format=ag-ui"):
        found = await http.get(f"/v1/runs/{run.run_id}{path}")
        assert "llm_auth" in found.text or path in ("/tree",), found.text
        assert not [form for form in forms if form in found.text], path


async def test_curl_reads_the_words_as_they_come(engine: Engine, http: httpx2.AsyncClient) -> None:
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        body = {"agent": "speaker", "input": "Go.", "stream": True}
        async with http.stream(
            "POST", "/v1/runs", json=body, headers={"Accept": "text/plain"}
        ) as r:
            assert r.headers["content-type"] == "text/plain; charset=utf-8"
            words = r.aiter_text()
            assert await anext(words) == "Once "
            gate.open()
            assert "".join([each async for each in words]) == "more\n"
        await engine.ended(r.headers["location"].rpartition("/")[2])
