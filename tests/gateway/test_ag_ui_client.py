"""The official AG-UI client talks to agents: over HTTP, with real Runs."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from perdure import Agent, tool
from perdure.agents.asking import ask_user
from perdure.gateway.streaming.ag_ui import AgUi, frames
from perdure.gateway.streaming.ag_ui.asked import AgUiRequest, NewRun, asked
from perdure.runs.deltas import DeltaBase, LiveEvent, StepRetrying, position_of, spoken
from perdure.runs.events import StepCompleted
from perdure.runs.steps import ModelReply
from tests.conftest import free_port
from tests.gateway.ag_ui_reader import Reader
from tests.gateway.live import log_of
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, text, tool_calls

NODE = Path(__file__).with_name("node")
DOCS = Path(__file__).parents[2] / "docs/ag-ui.md"
LIMIT_S = 60.0


@tool(approval=True)
def pay(euros: int) -> str:
    """Pay somebody."""
    return f"paid {euros}"


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


CLERK = Agent(name="clerk", tools=[pay, look, ask_user], handoffs=["boss"])
BOSS = Agent(name="boss", description="Leads.")


async def live(engine: Engine, run_id: str, after: int, void: int) -> AsyncIterator[LiveEvent]:
    """Yield a Run's Events and, before each model Step ends, what void attempts and it said."""
    async for event in engine.manager.events(run_id, after):
        if isinstance(event, StepCompleted) and isinstance(event.reply, ModelReply):
            about = {"run_id": run_id, "after": event.sequence_number - 1, "step": event.step}
            # Attempts are counted from 1: the one before the first is there to be taken back.
            for attempt in range(event.reply.attempt - void, event.reply.attempt + 1):
                base, offset = DeltaBase(**about, attempt=attempt), 0
                yield StepRetrying(**about, attempt=attempt)
                for segment in log_of(event.reply):
                    yield spoken(base, offset, segment)
                    offset += len(segment.text)
        yield event


class Endpoint:
    """`POST /` as the gateway serves it: no more than the test needs of it."""

    def __init__(self, engine: Engine, void: int = 1) -> None:
        self.engine = engine
        self.void = void
        self.sent: list[dict[str, Any]] = []

    async def __call__(self, request: Request) -> StreamingResponse:
        given = AgUiRequest.model_validate_json(await request.body())
        manager, what = self.engine.manager, asked(given)
        ids = {"thread_id": given.thread_id, "run_id": given.run_id, "before": given.messages}
        if isinstance(what, NewRun):
            session = manager.session(given.thread_id)
            started = await session.start_run(
                "clerk", what.input, idempotency_key=what.idempotency_key
            )
            return self._stream(started.run_id, AgUi(**ids), -1)
        for each in what:
            if each.verdict == "answered":
                await manager.answer(each.run_id, each.action_id, each.answer, by="me")
            else:
                await manager.approve(
                    each.run_id, each.action_id, by="me", arguments=each.arguments
                )
        run = await manager.get_run(what[0].run_id)
        return self._stream(run.run_id, AgUi(run, **ids), run.last_event)

    def _stream(self, run_id: str, encoder: AgUi, after: int) -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            opening = encoder.opening()
            self.sent += opening
            yield frames(opening, position=None)
            async for item in live(self.engine, run_id, after, self.void):
                events = encoder.encode(item)
                self.sent += events
                yield frames(events, position_of(item))
                if encoder.is_over:
                    return

        return StreamingResponse(body(), media_type="text/event-stream")


@asynccontextmanager
async def served(endpoint: Endpoint) -> AsyncIterator[str]:
    """Serve over real HTTP."""

    async def post(request: Request) -> StreamingResponse:
        return await endpoint(request)

    port = free_port()
    app = Starlette(routes=[Route("/", post, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        await serving


@pytest.fixture(scope="module")
def node() -> str:
    """Node, with the client installed from npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    if not (NODE / "node_modules/@ag-ui/client").exists():
        install = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(install, cwd=NODE, capture_output=True, text=True, timeout=120)  # noqa: S603 - our own
        if done.returncode and not os.environ.get("CI"):
            pytest.skip(f"npm can't install the client: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
    return node


async def finished(program: Sequence[str]) -> tuple[str, str]:
    """Run a program of Node's to its end; return what it has written."""
    process = await asyncio.create_subprocess_exec(
        *program, cwd=NODE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    return out.decode(), err.decode()


async def conversed(
    node: str, url: str, thread: str, *turns: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return what the client made of each turn of a conversation."""
    program = [node, str(NODE / "converse.mjs"), url, thread, json.dumps(turns)]
    out, err = await finished(program)
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


async def test_the_official_client_converses_decides_and_goes_on(engine: Engine, node: str) -> None:
    both = tool_calls(
        call("look", {"what": "x"}, id="a"), call("pay", {"euros": 5}, id="b"), content="I look."
    )
    which = tool_calls(call("ask_user", {"question": "Which?", "choices": ["red", "blue"]}))
    over = tool_calls(call("handoff_to_boss", {}, id="h"))
    engine.model.script([both, text("Done: 5."), which, over, text("Blue it is.")])
    endpoint = Endpoint(engine)
    async with engine.serving(CLERK, BOSS), served(endpoint) as url:
        approves, done, asks, answers = await conversed(
            node,
            url,
            engine.task_queue,
            {"say": "Pay 5.", "id": "u1"},
            {"decide": {"approved": True, "editedArgs": {"euros": 6}}},
            {"say": "And now?", "id": "u2"},
            {"decide": {"answer": "blue"}},
        )
    for turn in (approves, done, asks, answers):
        assert "failed" not in turn["end"], turn["end"]
    assert approves["end"]["outcome"]["interrupts"][0]["reason"] == "tool_call"
    assert done["end"]["outcome"]["type"] == answers["end"]["outcome"]["type"] == "success"
    assert (done["end"]["result"], answers["end"]["result"]) == ("Done: 5.", "Blue it is.")
    said = [(each["role"], each.get("content")) for each in answers["messages"]]
    assert [each for each in said if each[0] != "reasoning"] == [
        ("user", "Pay 5."),
        ("assistant", "I look."),
        ("tool", "saw x"),
        ("tool", '[A person changed the arguments to {"euros": 6}]\npaid 6'),
        ("assistant", "Done: 5."),
        ("user", "And now?"),
        ("assistant", None),
        ("tool", "blue"),
        ("assistant", None),
        ("tool", "The conversation goes on with the agent 'boss'."),
        ("assistant", "Blue it is."),
    ]
    reader = Reader()
    reader.read(endpoint.sent)  # the official types take all of it


async def test_the_official_client_is_told_why_a_run_failed(engine: Engine, node: str) -> None:
    nowhere = tool_calls(call("nothing", {}))
    engine.model.script([nowhere, nowhere, nowhere])
    async with engine.serving(CLERK, BOSS), served(Endpoint(engine)) as url:
        (turn,) = await conversed(node, url, engine.task_queue, {"say": "Go.", "id": "u1"})
    assert (turn["end"]["type"], turn["end"]["code"]) == ("RUN_ERROR", "model_misbehaving")
    assert turn["end"]["message"]
    assert turn["end"]["usage"][0]["totalTokens"] > 0


async def test_the_example_of_the_documentation_works(engine: Engine, node: str) -> None:
    example = DOCS.read_text().split("```js\n")[1].split("```")[0]
    engine.model.script([tool_calls(call("pay", {"euros": 5})), text("Paid.")])
    async with engine.serving(CLERK, BOSS), served(Endpoint(engine, void=0)) as url:
        here = example.replace("http://127.0.0.1:8000/v1/agents/clerk/ag-ui", url)
        here = here.replace("thread-1", engine.task_queue)
        program = [node, "--input-type=module", "--eval", here]
        out, err = await finished(program)
    assert (out, err) == ('Approve pay({"euros": 5})?\nPaid.', "")
