"""Followers lose their connection, gateways restart, workers die: nothing is lost."""

import asyncio
import json
import random
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx2

from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.conftest import free_port
from tests.e2e.ledger import Ledger, Worker
from tests.harness.engine import Engine, soon
from tests.harness.processes import Process, ended, kill, perdure, said
from tests.harness.replies import Completion
from tests.harness.scripted_openai import RecordedRequest, Reply, call, text, tool_calls

CLIENTS = 20
DROPS = 10
TURNS = 12
WORDS = tuple(f"word{n} " for n in range(25))
ENDS = ("run.completed", "run.failed", "run.cancelled", "run.timeout")


def slowly(ledger: Ledger, request: RecordedRequest) -> Reply:
    """A Run of many turns, each of which says many words."""
    done = sum(message["role"] == "assistant" for message in request.messages)
    if done == TURNS:
        return text(*WORDS).delayed(0.03)
    reply = tool_calls(call("look", ledger.entry(str(done))), content="*")
    assert isinstance(reply.body, Completion)
    return replace(reply, body=replace(reply.body, pieces=WORDS)).delayed(0.03)


@dataclass
class Follower:
    """A client as it should be: it comes back with the last id that it got, until the end."""

    number: int
    random: random.Random
    url: str
    last_id: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    drafts: dict[tuple[int, int], str] = field(default_factory=dict)
    """What each attempt of each Step has said, of all kinds together."""
    words: dict[tuple[int, int], str] = field(default_factory=dict)
    """What of it is text."""
    dropped: int = 0
    refused: int = 0

    async def follow(self, client: httpx2.AsyncClient) -> None:
        while not self.has_ended:
            headers = {"Accept": "text/event-stream"}
            if self.last_id is not None:
                headers["Last-Event-ID"] = self.last_id
            frames = self.random.randint(1, 4) if self.dropped < DROPS else 10**9
            try:
                async with client.stream("GET", self.url, headers=headers) as response:
                    if response.status_code != 200:
                        raise httpx2.ConnectError(str(response.status_code))
                    async for frame in _frames(response):
                        self.take(frame)
                        frames -= 1
                        if not frames:
                            self.dropped += 1
                            break
            except httpx2.HTTPError:
                self.refused += 1
                await asyncio.sleep(0.1 * self.random.random())

    @property
    def has_ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in ENDS

    def take(self, frame: dict[str, str]) -> None:
        item = json.loads(frame["data"])
        assert frame["event"] == item["type"]
        self.last_id = frame["id"]
        if "sequence_number" in item:
            assert item["sequence_number"] == len(self.events), f"follower {self.number}"
            self.events.append(item)
        elif "delta" in item:
            key = item["step"], item["attempt"]
            draft = self.drafts.get(key, "")
            assert item["offset"] == len(draft), f"follower {self.number}: {item}, {draft!r}"
            self.drafts[key] = draft + item["delta"]
            if item["type"] == "run.output_text.delta":
                self.words[key] = self.words.get(key, "") + item["delta"]
        else:
            assert item["type"] == "run.step.retrying", item


async def _frames(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    frame: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if "data" in frame:
                yield frame
            frame = {}
            continue
        name, _, value = line.partition(":")
        frame[name] = value.removeprefix(" ")


@dataclass
class Processes:
    """A gateway and a worker, of which there is a new one after each fault."""

    stack: AsyncExitStack
    worker: Worker
    port: int
    env: dict[str, str]

    async def begin(self) -> None:
        self.serving, self.working = await self._gateway(), await self._worker()

    async def fault(self, name: str) -> None:
        if name == "worker":
            await kill(self.working)
            self.working = await self._worker()
            return
        self.serving.send_signal(signal.Signals[name])
        assert await ended(self.serving) == (0 if name == "SIGTERM" else -signal.SIGKILL)
        self.serving = await self._gateway()

    async def _gateway(self) -> Process:
        serve = perdure("serve", "--port", str(self.port), env=self.env)
        return await self._begun(serve, "Gateway: ")

    async def _worker(self) -> Process:
        return await self._begun(self.worker(), "Worker ready")

    async def _begun(self, process: AbstractAsyncContextManager[Process], words: str) -> Process:
        entered = await self.stack.enter_async_context(process)
        await said(entered, words)
        return entered


FAULTS = ((5, "SIGTERM"), (12, "worker"), (18, "SIGKILL"), (24, "worker"), (30, "SIGTERM"))
"""After which Event what dies."""


async def test_twenty_followers_lose_nothing_whatever_dies(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    ledger.open()
    seed = secrets.randbelow(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    engine.model.respond_with(partial(slowly, ledger))
    env = {"PERDURE_TASK_QUEUE": engine.task_queue}
    async with AsyncExitStack() as stack, httpx2.AsyncClient(timeout=30) as client:
        processes = Processes(stack, worker, free_port(), env)
        await processes.begin()
        run_id = await engine.start("clerk")
        url = f"http://127.0.0.1:{processes.port}/v1/runs/{run_id}/events"
        followers = [Follower(n, random.Random(seed + n), url) for n in range(CLIENTS)]  # noqa: S311
        tasks = [asyncio.create_task(each.follow(client)) for each in followers]

        async def has_come_to(number: int) -> bool:
            for task in tasks:
                if task.done():
                    task.result()
            return len(followers[0].events) > number

        for number, fault in FAULTS:
            await soon(partial(has_come_to, number), 60)
            await processes.fault(fault)
        async with asyncio.timeout(120):
            await asyncio.gather(*tasks)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert max(step.attempt for step in run.steps) > 1, "no attempt died with its worker"
    whole = [json.loads(event.model_dump_json()) async for event in engine.manager.events(run_id)]
    for each in followers:
        assert each.events == whole
        assert each.dropped == DROPS
        assert_drafts(each, run)
    assert sum(each.refused for each in followers) >= CLIENTS
    # How much each hears depends on how long processes take to come back.
    assert sum(len(each.drafts) for each in followers) >= CLIENTS, "nobody heard a word in time"


def assert_drafts(follower: Follower, run: Run) -> None:
    """What was said before a Step ended is how its text begins."""
    for (number, attempt), words in follower.words.items():
        step = run.steps[number - 1]
        if attempt == step.attempt:
            assert (step.text or "").startswith(words)
