"""Input that is too large, over a real connection."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from perdure.engine.api_keys import KeyFile
from tests.gateway.security.checks import bearer
from tests.gateway.security.conftest import MakeSettings
from tests.gateway.security.small import create_app

MB = 1024 * 1024


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    """Serve an application as the gateway does; give its address."""
    config = uvicorn.Config(app, http="h11", log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    # Connections wait in the socket until it is being served.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"http://{host}:{port}"
        server.should_exit = True
        await serving


@pytest.fixture
async def keyed(keys: KeyFile, settings: MakeSettings) -> AsyncIterator[httpx2.AsyncClient]:
    key, _ = keys.create("ops", ["admin"])
    async with (
        served(create_app(settings(http_max_body_bytes=8 * MB))) as url,
        httpx2.AsyncClient(base_url=url, headers=bearer(key)) as client,
    ):
        yield client


async def _pieces(piece: bytes, number: int) -> AsyncIterator[bytes]:
    for _ in range(number):
        yield piece


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
async def test_a_large_body_is_refused(declared: bool, keyed: httpx2.AsyncClient) -> None:
    body = b"x" * (10 * MB) if declared else _pieces(b"x" * MB, 10)
    answer = await keyed.post("/v1/runs", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_a_large_body_without_a_key_is_not_read(keyed: httpx2.AsyncClient) -> None:
    url = keyed.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    )
    async with asyncio.timeout(20):
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
        await reader.read()  # until it has hung up
    writer.close()


async def test_hostile_json_takes_no_memory(keyed: httpx2.AsyncClient) -> None:
    size = 8 * MB - 100
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for body in (b"[" * size, b"[" + b"[]," * (size // 3), b'{"a":' * (size // 5)):
        answer = await keyed.post("/v1/runs", content=body, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024  # KiB; parsed, the second one alone takes 200 MB


async def test_a_large_head_is_refused(keyed: httpx2.AsyncClient) -> None:
    for headers in ({"X-Long": "x" * MB}, {f"X-{n}": "x" * 100 for n in range(10_000)}):
        try:
            answer = await keyed.get("/v1/runs", headers=headers)
        except (httpx2.WriteError, httpx2.ReadError):
            continue  # it was hung up on before it had sent all
        assert answer.status_code in (400, 431)
    assert (await keyed.get("/v1/runs")).status_code == 200
