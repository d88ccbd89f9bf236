"""One session over HTTP, whatever the server and the network do."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure import HttpServer, Secret
from perdure.activities.failure import ToolProblem
from perdure.activities.mcp import http, session
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.session import Connection
from perdure.runs.errors import ErrorCode, RunError
from tests.mcp.http_server import (
    Answer,
    FaultyServer,
    answers_well,
    breaks_off,
    breaks_off_events,
    large,
    served,
    status,
)

LIMIT_S = 20.0
TOKEN = "token-0123456789"  # noqa: S105 - made up


@pytest.fixture
def faulty() -> FaultyServer:
    """The server."""
    return FaultyServer()


@pytest.fixture
async def connection(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Connection]:
    """A session with it."""
    monkeypatch.setenv("HTTP_TOKEN", TOKEN)
    async with served(faulty.app()) as url:
        headers = {"Authorization": Secret("HTTP_TOKEN", "Bearer {}"), "X-Team": "blue"}
        made = Connection(HttpServer("h", url, headers=headers, start_timeout_s=5.0))
        yield made
        async with asyncio.timeout(LIMIT_S):
            await made.close()


async def asked(connection: Connection) -> str:
    """Call the tool, within bounds, and return its text."""
    async with asyncio.timeout(LIMIT_S):
        return result_text(await connection.call("do", {}, "key"))


async def problem(waiting: Any) -> RunError:
    """Return why there was no answer."""
    with pytest.raises(ToolProblem) as raised:
        await waiting
    return raised.value.why


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (status(500), ErrorCode.MCP_CONNECTION_LOST),
        (status(503), ErrorCode.MCP_CONNECTION_LOST),
        (status(403), ErrorCode.TOOL_FAILED),
        (status(307), ErrorCode.TOOL_FAILED),
        (breaks_off, ErrorCode.MCP_CONNECTION_LOST),
        (breaks_off_events, ErrorCode.MCP_CONNECTION_LOST),
    ],
)
async def test_a_call_that_fails_harms_no_other_call_of_the_session(
    connection: Connection, faulty: FaultyServer, answer: Answer, code: ErrorCode
) -> None:
    going_on, released = asyncio.Event(), asyncio.Event()

    async def waits(server: FaultyServer, message: dict[str, Any]) -> Any:
        going_on.set()
        await released.wait()
        return await answers_well(server, message)

    faulty.answer = waits
    other = asyncio.create_task(asked(connection))
    await going_on.wait()
    faulty.answer = answer
    assert (await problem(asked(connection))).code is code
    released.set()
    assert await other == "done"
    assert len(faulty.sessions) == 1


async def test_a_server_that_has_restarted_is_asked_again_in_a_new_session(
    connection: Connection, faulty: FaultyServer
) -> None:
    assert await asked(connection) == "done"
    faulty.sessions.clear()
    assert await asyncio.gather(*(asked(connection) for _ in range(10))) == ["done"] * 10
    assert (len(faulty.sessions), faulty.calls) == (1, 11)


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_an_answer_that_is_too_long_is_given_up_while_it_comes(
    connection: Connection, faulty: FaultyServer, kind: str
) -> None:
    faulty.answer = large(http.MAX_HTTP_BYTES + 2_000_000, kind)
    assert (await problem(asked(connection))).code is ErrorCode.RESULT_TOO_LARGE
    faulty.answer = large(10_000_000, kind)
    assert len(await asked(connection)) == 10_000_000 // 65536 * 65536
    assert len(faulty.sessions) == 1


async def test_headers_are_sent_and_secrets_are_not_logged(
    connection: Connection, faulty: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    faulty.answer = status(500)
    await problem(asked(connection))
    sent = faulty.headers[-1]
    assert (sent["authorization"], sent["x-team"]) == (f"Bearer {TOKEN}", "blue")
    assert TOKEN not in caplog.text


async def test_a_list_that_is_old_is_read_again(
    connection: Connection, faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.tools()
    requests = len(faulty.headers)
    await connection.tools()
    assert len(faulty.headers) == requests
    monkeypatch.setattr(session, "LISTING_AGE_S", 0.0)
    await connection.tools()
    assert len(faulty.headers) == requests + 1
    faulty.sessions.clear()
    assert [each.name for each in await connection.tools()] == ["do"]


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with served(FaultyServer().app()) as url:
        wrong = Connection(HttpServer("h", url.replace("/mcp", "/other")))
        why = await problem(wrong.tools())
        assert (why.code, why.retryable) == (ErrorCode.MCP_UNAVAILABLE, False)
        assert "404" in why.message
    gone = Connection(HttpServer("h", url))
    why = await problem(gone.tools())
    assert (why.code, why.retryable) == (ErrorCode.MCP_UNAVAILABLE, True)
    assert "can't be reached" in why.message
    await wrong.close()
    await gone.close()
