"""The example clients follow a Run to its end over connections that do not last."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure import Agent, RetryRule, tool
from perdure.engine.api_keys import KeyFile
from perdure.engine.settings import Settings
from perdure.gateway.streaming.sse import ServerSentEvents
from perdure.runs.deltas import LiveEvent, OutputTextDelta, Reset
from perdure.runs.errors import ErrorCode
from perdure.runs.run import Run
from tests.examples.cutting import cutting
from tests.gateway.conftest import gateway_of
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, call, text, tool_calls
from tests.mcp.http_server import served

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
SOON = RetryRule(max_attempts=3, first_s=0.2, longest_s=0.2)
SAID = r"I add\. \nWrong (words)?\n\[void\]\nIt is 3\.\n"


class Client:
    """An example client, as a person starts it.

    Args:
        language: Which.
        url: Where it asks.
        key: What it shows there.
    """

    def __init__(self, language: str, url: str, key: str) -> None:
        programs = {"python": (sys.executable, "follow.py"), "javascript": ("node", "follow.mjs")}
        program, file = programs[language]
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")
        self._command = program, str(CLIENTS / file), "assistant", "Add 1 and 2."
        self._env = os.environ | {"PERDURE_URL": url, "PERDURE_API_KEY": key}
        self.printed = ""

    async def __aenter__(self) -> "Client":
        pipes: dict[str, Any] = {
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
        }
        start = asyncio.create_subprocess_exec
        self._process = await start(*self._command, env=self._env, **pipes)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    async def prints(self, words: str) -> None:
        """Wait until it has printed words."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while words not in self.printed:
                read = await self._process.stdout.read(65_536)
                assert read, f"it ended with {self.printed!r}: {await self._process.stderr.read()}"
                self.printed += read.decode()

    async def ended(self) -> tuple[int | None, str]:
        """Wait for its end; return exit code and standard error."""
        async with asyncio.timeout(60):
            out, err = await self._process.communicate()
        self.printed += out.decode()
        return self._process.returncode, err.decode()


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_client_prints_everything_once_whatever_happens_to_its_connections(
    engine: Engine, language: str, tmp_path: Path
) -> None:
    @tool(effect="read")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    said, wrong, right = (Gate(timeout_s=60) for _ in range(3))
    asking = tool_calls(call("add", {"a": 1, "b": 2}), content="I add. ")
    engine.model.script(
        [
            asking.hold(said, 3),
            text("Wrong ", "words").hold(wrong, 2).without_done(3),
            text("It ", "is 3.").hold(right, 2),
        ]
    )
    agent = Agent(name="assistant", tools=[add], retries={ErrorCode.STREAM_INCOMPLETE: SOON})
    keys = KeyFile(tmp_path / "keys.json")
    key, _ = keys.create("example", ["write"])
    guarded = Settings(api_keys=keys.path, audit_log=tmp_path / "audit.log")
    async with (
        engine.serving(agent),
        gateway_of(engine.manager, guarded) as gateway,
        cutting(int(gateway.url.rpartition(":")[2]), seed=len(language)) as (address, between),
        Client(language, address, key) as client,
    ):
        for words, gate in (("I add. ", said), ("Wrong ", wrong), ("It ", right)):
            await client.prints(words)
            await between.cuts()
            gate.open()
        code, err = await client.ended()
        await engine.ended(err.split()[1])
    assert code == 0, err
    assert re.fullmatch(SAID, client.printed)
    assert err.endswith("completed\n")
    assert any(":" in position for position in between.positions), "within a Step"
    assert len(engine.model.requests) == 3, "one Run"


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_client_takes_a_reset_and_an_end_that_it_missed(
    engine: Engine, language: str
) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(Agent(name="assistant")):
        ended = await engine.run("assistant")
    begun = await anext(engine.manager.events(ended.run_id))
    spoken = OutputTextDelta(run_id=ended.run_id, after=3, step=1, attempt=1, offset=0, delta="Old")
    reset = Reset(run_id=ended.run_id, reason="unknown_position", run=Run.begin(begun))
    streams: list[list[LiveEvent]] = [[spoken], [reset]]
    asked: list[str] = []

    async def start(request: Request) -> Response:
        return JSONResponse({"run_id": ended.run_id}, status_code=202)

    async def get(request: Request) -> Response:
        return Response(ended.model_dump_json().replace('"completed"', '"failed"'))

    async def events(request: Request) -> Response:
        asked.append(request.headers.get("last-event-id", ""))
        if not streams:
            return Response(status_code=204)
        frames = map(ServerSentEvents().encode, streams.pop(0))
        return Response(b"".join(frames), media_type="text/event-stream")

    routes = [
        Route("/v1/runs", start, methods=["POST"]),
        Route("/v1/runs/{run_id}", get),
        Route("/v1/runs/{run_id}/events", events),
    ]
    async with served(Starlette(routes=routes), "") as url, Client(language, url, "any") as client:
        code, err = await client.ended()
    assert (code, client.printed) == (1, "Old\n[void]\n"), err
    assert asked == ["", "3:1.1.3", "0"]
