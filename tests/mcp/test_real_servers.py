"""Servers that others wrote, as they are published."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, HttpServer, StdioServer
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.session import Connection
from perdure.agents.mcp import McpServer
from perdure.runs.status import RunStatus
from tests.conftest import free_port
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls

LIMIT_S = 60.0
NODE = Path(__file__).with_name("node")
PROGRAM = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


def installed(name: str) -> str:
    """Return the path of a program of this environment."""
    return str(Path(sys.executable).with_name(name))


async def test_servers_from_pypi_are_used_in_a_run(engine: Engine, tmp_path: Path) -> None:
    for command in (
        ["init", "-q"],
        [
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "Begin.",
        ],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)  # noqa: ASYNC221, S603, S607 - short; whichever git there is
    clock = StdioServer("time", installed("mcp-server-time"), ["--local-timezone", "UTC"])
    git = StdioServer("git", installed("mcp-server-git"), trusted=True, include=["git_log"])
    hours = {"source_timezone": "Asia/Tokyo", "time": "16:30", "target_timezone": "UTC"}
    engine.model.script(
        [
            tool_calls(
                call("time__convert_time", hours, id="time"),
                call("time__convert_time", hours | {"source_timezone": "Atlantis"}, id="wrong"),
                call("git__git_log", {"repo_path": str(tmp_path)}, id="log"),
            ),
            text("Done."),
        ]
    )
    async with engine.serving(Agent(name="a", mcp_servers=[clock, git])):
        run = await engine.run("a")
    results = {each.call_id: each for each in run.tool_calls}
    assert run.status is RunStatus.COMPLETED
    assert "T07:30:00+00:00" in (results["time"].result or "")
    assert results["wrong"].error is not None
    assert "Atlantis" in results["wrong"].error.message
    assert "Begin." in (results["log"].result or "")
    names = [each["function"]["name"] for each in engine.model.requests[0].body["tools"]]
    assert names == ["time__get_current_time", "time__convert_time", "git__git_log"]


@pytest.fixture(scope="module")
def everything() -> str:
    """The server `everything`, which shows all that the protocol has, from npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    if not (NODE / PROGRAM).exists():
        install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(install, cwd=NODE, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own
        if done.returncode and not os.environ.get("CI"):
            pytest.skip(f"npm can't install the server: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
    return node


@pytest.fixture(params=["stdio", "http"])
async def server(everything: str, request: pytest.FixtureRequest) -> AsyncIterator[McpServer]:
    """The same server, reached in two ways."""
    program = str(NODE / PROGRAM)
    if request.param == "stdio":
        yield StdioServer("all", everything, [program, "stdio"])
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        everything,
        program,
        "streamableHttp",
        env={"PORT": str(port), "PATH": ""},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )

    async def is_listening() -> bool:
        try:
            _, writer = await asyncio.open_connection("localhost", port)
        except OSError:
            return False
        writer.close()
        return True

    await soon(is_listening)
    yield HttpServer("all", f"http://localhost:{port}/mcp")
    process.kill()
    await process.wait()


async def test_a_server_from_npm_is_used_over_stdio_and_http(server: McpServer) -> None:
    connection = Connection(server)

    async def asked(tool: str, **arguments: Any) -> str:
        return result_text(await connection.call(tool, arguments, "key"))

    async with asyncio.timeout(LIMIT_S):
        names = {each.name for each in await connection.tools()}
        assert {"echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"} <= names
        assert await asked("echo", message="hé") == "Echo: hé"
        assert "5" in await asked("get-sum", a=2, b=3)
        assert "image image/png" in await asked("get-tiny-image")
        assert json.loads(await asked("get-structured-content", location="Chicago"))
        long = asyncio.create_task(asked("trigger-long-running-operation", duration=60, steps=2))
        assert await asked("echo", message="meanwhile") == "Echo: meanwhile"
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        assert (await connection.call("no-such-tool", {}, "")).is_error
        assert await asked("echo", message="on") == "Echo: on"
        await connection.close()
