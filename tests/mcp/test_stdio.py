"""One session with a server process, whatever that process does."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import Secret, StdioServer
from perdure.activities.failure import ToolProblem
from perdure.activities.mcp import session, stdio
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.session import Connection
from perdure.agents.mcp import McpServer
from perdure.runs.errors import ErrorCode, RunError
from tests.harness.engine import soon
from tests.mcp.launching import exists, heard, scripted

LIMIT_S = 20.0
TOKEN = "token-0123456789"  # noqa: S105 - made up

Connecting = Callable[[McpServer], Connection]


@pytest.fixture
async def connect() -> AsyncIterator[Connecting]:
    """Returns connections, which are closed in the order in which they were opened."""
    made: list[Connection] = []

    def connecting(server: McpServer) -> Connection:
        made.append(Connection(server))
        return made[-1]

    yield connecting
    async with asyncio.timeout(LIMIT_S):
        for each in made:
            await each.close()


async def asked(connection: Connection, tool: str, **arguments: Any) -> str:
    """Call a tool, within bounds, and return its text."""
    async with asyncio.timeout(LIMIT_S):
        return result_text(await connection.call(tool, arguments, ""))


async def problem(waiting: Any) -> RunError:
    """Return why there was no answer."""
    with pytest.raises(ToolProblem) as raised:
        async with asyncio.timeout(LIMIT_S):
            await waiting
    return raised.value.why


async def is_gone(pid: int) -> bool:
    return not exists(pid)


async def pids_of(connection: Connection) -> list[int]:
    """Return the ids of the server's process and of a child that it leaves behind."""
    return [int(pid) for pid in (await asked(connection, "leave_child")).split()]


async def test_a_server_that_dies_in_a_call_is_reaped_and_started_again(
    connect: Connecting,
) -> None:
    """Case MCP-01. The child that it leaves holds its pipes open."""
    connection = connect(scripted())
    pids = await pids_of(connection)
    waiting = [asyncio.create_task(asked(connection, "sleep", s=60)) for _ in range(3)]
    await asyncio.sleep(0)
    why = await problem(connection.call("die", {}, ""))
    for each in waiting:
        assert (await problem(each)).code is ErrorCode.MCP_CONNECTION_LOST
    assert (why.code, why.retryable) == (ErrorCode.MCP_CONNECTION_LOST, True)
    assert await asked(connection, "echo", text="hello") == "echo: hello"
    for pid in pids:
        await soon(partial(is_gone, pid))


async def test_a_server_that_dies_at_its_start_is_quoted_without_secrets(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ISSUE_TOKEN", TOKEN)
    caplog.set_level(logging.DEBUG)
    server = scripted("s", "--die-in", "initialize", env={"TOKEN": Secret("ISSUE_TOKEN")})
    why = await problem(connect(server).tools())
    assert (why.code, why.retryable) == (ErrorCode.MCP_UNAVAILABLE, True)
    assert "no licence for '[redacted]' / exited with code 3" in why.message
    assert TOKEN not in caplog.text + str(why)
    heard = [getattr(each, "content", "") for each in caplog.records]
    assert any(said.startswith("giving up") for said in heard)
    assert TOKEN not in str(heard)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (scripted("s", "--hang-in", "initialize", start_timeout_s=0.3), "not ready within 0.3 s"),
        (scripted("s", "--hang-in", "tools/list", start_timeout_s=0.3), "not ready within 0.3 s"),
        (scripted("s", "--flood", start_timeout_s=0.5), "not ready within 0.5 s"),
        (StdioServer("s", "no-such-program"), "No such file"),
        (StdioServer("s", "true", cwd="/no/such/folder"), "No such file"),
        (StdioServer("s", "true"), "ended while it was being started"),
        (StdioServer("s", "echo", ["hello"]), "(hello / exited with code 0)"),
        (scripted("s", env={"A": Secret("NO_SUCH_VARIABLE")}), "variable NO_SUCH_VARIABLE"),
    ],
)
async def test_a_server_that_can_t_be_used_says_why(
    connect: Connecting, server: McpServer, said: str
) -> None:
    why = await problem(connect(server).tools())
    assert why.code is ErrorCode.MCP_UNAVAILABLE
    assert said in why.message


async def test_noise_on_stdout_harms_nothing(connect: Connecting) -> None:
    connection = connect(scripted("s", "--junk"))
    assert len(await connection.tools()) == 20
    assert await asked(connection, "junk") == "and the answer"
    assert await asked(connection, "echo", text="a\nb") == "echo: a\nb"


async def test_a_cancelled_call_is_cancelled_on_the_server_and_the_session_goes_on(
    connect: Connecting, tmp_path: Path
) -> None:
    """Case MCP-05."""
    log = tmp_path / "log"
    connection = connect(scripted(log=log))
    others = [asyncio.create_task(asked(connection, "sleep", s=1)) for _ in range(3)]
    call = asyncio.create_task(asked(connection, "sleep", s=60))

    async def has_it() -> bool:
        return len(heard(log, "tools/call")) == 4

    await soon(has_it)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asked(connection, "echo", text="on") == "echo: on"
    [told] = heard(log, "notifications/cancelled")
    [meant] = [m for m in heard(log, "tools/call") if m["params"]["arguments"] == {"s": 60}]
    assert told["params"]["requestId"] == meant["id"]
    assert await asyncio.gather(*others) == ["slept"] * 3


async def test_fifty_callers_at_once_share_one_session(connect: Connecting, tmp_path: Path) -> None:
    """Case MCP-03."""
    log = tmp_path / "log"
    connection = connect(scripted(log=log))
    texts = await asyncio.gather(*(asked(connection, "echo", text=str(n)) for n in range(50)))
    assert texts == [f"echo: {n}" for n in range(50)]
    assert len(heard(log, "initialize")) == 1


async def test_sessions_are_closed_in_any_order_by_any_task(tmp_path: Path) -> None:
    """Cases MCP-03 and MCP-04."""
    first, second = Connection(scripted("a")), Connection(scripted("b"))
    pids = [*await pids_of(first), *await pids_of(second)]
    broken = Connection(StdioServer("c", "no-such-program"))
    await problem(broken.tools())
    opening = Connection(scripted("d", "--hang-in", "initialize", log=tmp_path / "log"))
    waiting = asyncio.create_task(opening.tools())

    async def is_opening() -> bool:
        return bool(heard(tmp_path / "log", "initialize"))

    await soon(is_opening)
    async with asyncio.timeout(LIMIT_S):
        await first.close()
        await asyncio.create_task(opening.close())
        assert await asked(second, "echo", text="b") == "echo: b"
        await broken.close()
        await asyncio.create_task(second.close())
    assert "stopping" in (await problem(waiting)).message
    assert "stopping" in (await problem(first.tools())).message
    for pid in pids:
        await soon(partial(is_gone, pid))


async def test_a_caller_that_leaves_while_a_session_is_opened_harms_no_other(
    connect: Connecting,
) -> None:
    connection = connect(scripted())
    leaving = asyncio.create_task(connection.call("echo", {"text": "1"}, ""))
    staying = asyncio.create_task(asked(connection, "echo", text="2"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == "echo: 2"


async def test_a_server_that_will_not_go_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "LEAVE_S", 0.1)
    monkeypatch.setattr(stdio, "TERM_S", 0.1)
    connection = Connection(scripted("s", "--stay"))
    pids = await pids_of(connection)
    async with asyncio.timeout(LIMIT_S):
        await connection.close()
    for pid in pids:
        await soon(partial(is_gone, pid))


async def test_a_list_without_an_end_is_cut(connect: Connecting) -> None:
    assert len(await connect(scripted("s", "--endless")).tools()) == session.MAX_LISTED


async def test_the_list_is_read_again_after_a_notice_and_only_then(
    connect: Connecting, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    connection = connect(scripted("s", "--old", log=log))
    before = await connection.tools()
    assert await connection.tools() is before
    assert len(heard(log, "tools/list")) == 3  # of ten tools each
    await asked(connection, "change")

    async def has_changed() -> bool:
        return await connection.tools() is not before

    await soon(has_changed)
    assert {each.name for each in before} - {each.name for each in await connection.tools()} == {
        "gone"
    }


async def test_an_answer_that_is_too_long_fails_only_its_call(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 200_000)
    connection = connect(scripted())
    other = asyncio.create_task(asked(connection, "sleep", s=1))
    why = await problem(connection.call("big", {"size": 300_000}, ""))
    assert why.code is ErrorCode.RESULT_TOO_LARGE
    assert len(await asked(connection, "big", size=150_000)) == 149_999
    assert await other == "slept"


async def test_a_server_gets_what_it_is_given_and_little_else(
    connect: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-others")
    monkeypatch.setenv("ISSUE_TOKEN", TOKEN)
    env = {"PLAIN": "x", "TOKEN": Secret("ISSUE_TOKEN", "Bearer {}")}
    found = json.loads(await asked(connect(scripted("s", env=env)), "environment"))
    found.pop("LC_CTYPE", None)  # Python's own
    assert set(found) <= {*stdio.INHERITED, "PLAIN", "TOKEN"}
    assert (found["PLAIN"], found["TOKEN"]) == ("x", f"Bearer {TOKEN}")
    assert found["PATH"] == os.environ["PATH"]


MEASURE = """
import asyncio, resource, sys
from perdure.activities.failure import ToolProblem
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.session import Connection
from tests.mcp.launching import scripted

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main():
    connection = Connection(scripted())
    await connection.tools()
    before = peak()
    try:
        await connection.call("big", {"size": 100_000_000}, "")
    except ToolProblem as exc:
        print(exc.why.code.value)
    print(len(result_text(await connection.call("blocks", {"count": 50_000}, "")).encode()))
    largest = result_text(await connection.call("big", {"size": 64 * 1024 * 1024}, "")).encode()
    print(len(largest))
    await connection.close()
    print(peak() - before)

asyncio.run(main())
"""


def test_the_largest_results_take_less_than_three_times_their_size() -> None:
    """Case MCP-06."""
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, timeout=60
    )
    code, blocks, largest, grown = done.stdout.split()
    assert (code, blocks, int(largest)) == ("result_too_large", "99999", 64 * 1024 * 1024)
    assert int(grown) < 3 * int(largest)
