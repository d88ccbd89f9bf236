"""How far behind followers of Runs are, and what they cost: through a real gateway, over sockets.

The model is served by this very process, which lets each word go at a moment that it knows. The
followers are in it as well, and read no more of the stream than they have to.
"""

import asyncio
import os
import re
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import httpx2

from bench.processes import memory_mib
from bench.stage import Child, Stage, free_port, worker
from perdure.client.manager import RunManager
from perdure.engine.connect import Address
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Gate, Reply, text
from tests.harness.scripted_openai import ScriptedOpenAI

QUEUE = "bench-streams"
WORDS = 40
EVERY_S = 0.2
"""A word is let go as often as that."""
WORKERS = 3
"""Each executes a hundred Steps at once, by the SDK's default; all Runs are to speak together."""
SAID_S = 3.0
"""Between the last word and the end of the answer: that many Runs end at once is another matter."""
SETTLE_S = 1.0
"""Between the last request and the first word: connections are made, memory is taken."""
KIB = 1024
_WORD = re.compile(rb"w(\d{3}) ")
_END = re.compile(rb'event: run\.completed\ndata: \{[^}]*?"at":"([^"]+)"')
_TAIL = 400
"""Bytes that are looked at again: what is looked for may be cut."""


@dataclass(frozen=True)
class Crowd:
    """Many followers at once."""

    runs: int
    followers: int
    worst_s: float
    """From the moment a word is let go to the moment a follower has it."""
    middle_s: float
    last_end_s: float
    """From the end of a Run, all of which end at once, to the moment its follower has the Event."""
    kib_each: float
    """What the gateway's memory grew by, for each follower."""
    calls_per_s: float
    """What the gateway asked of Temporal while the words came."""


@dataclass(frozen=True)
class Streams:
    """One transport of deltas."""

    transport: str
    first_word_s: float
    """From the provider's first word to the follower, median."""
    event_s: float
    """From the Run's end, by Temporal's clock, to the follower, median."""
    alone: Crowd
    one_run: Crowd
    many_runs: Crowd


class Words:
    """Words that all answers say at the same moments."""

    def __init__(self) -> None:
        self._gates = [Gate(600) for _ in range(WORDS + 1)]
        self.at = [0.0] * (WORDS + 1)
        """When each was let go, and the end of the answer."""
        self.asked = 0

    def answer(self, request: RecordedRequest) -> Reply:
        """Say them, each when it is let go."""
        self.asked += 1
        reply = text(*(f"w{number:03} " for number in range(WORDS)))
        for number, gate in enumerate(self._gates):
            reply = reply.hold(gate, number + 1)  # behind the chunk of the role
        return reply

    def say(self, number: int) -> None:
        """Let a word go."""
        self.at[number] = time.time()
        self._gates[number].open()


class Follower(asyncio.Protocol):
    """Follows a Run, and notes when it has which word."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._buffer = b""
        self.had: list[float] = []
        self.ended_s: float | None = None
        """From the Run's end to its Event's arrival."""
        self.connected = asyncio.Event()
        self.is_done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101
        path = f"/v1/runs/{self._run_id}/events"
        transport.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Look for words."""
        now = time.time()
        self.connected.set()
        seen = self._buffer + data
        for word in _WORD.findall(seen):
            if int(word) == len(self.had):
                self.had.append(now)
        if self.ended_s is None and (end := _END.search(seen)):
            self.ended_s = now - datetime.fromisoformat(end[1].decode()).timestamp()
            self.is_done.set()
        self._buffer = seen[-_TAIL:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Be done."""
        self.is_done.set()


@dataclass(frozen=True)
class _Place:
    manager: RunManager
    model: ScriptedOpenAI
    gateway: int
    """Process id."""
    port: int
    metrics: int

    async def follow(self, run_id: str) -> Follower:
        loop = asyncio.get_running_loop()
        _, follower = await loop.create_connection(lambda: Follower(run_id), "127.0.0.1", self.port)
        await follower.connected.wait()
        return follower

    async def asked(self) -> float:
        """Return how many requests the gateway has made of Temporal."""
        async with httpx2.AsyncClient() as client:
            told = (await client.get(f"http://127.0.0.1:{self.metrics}/metrics")).text
        counts = re.findall(r"^temporal_(?:long_)?request(?:_total)?\{.*\} (\d+)$", told, re.M)
        return float(sum(map(int, counts)))


async def measured(stage: Stage, crowd: int, rounds: int) -> list[Streams]:
    """Measure both transports; Redis only where its server is installed."""
    found = [await _measured(stage, "heartbeats", crowd, rounds)]
    if shutil.which("redis-server") is not None:
        async with _redis() as url:
            os.environ["PERDURE_REDIS_URL"] = url
            found.append(await _measured(stage, "Redis", crowd, rounds))
            del os.environ["PERDURE_REDIS_URL"]
    return found


async def _measured(stage: Stage, transport: str, crowd: int, rounds: int) -> Streams:
    async with _served(stage) as place:
        firsts: list[float] = []
        ends: list[float] = []
        for _ in range(rounds):
            words = Words()
            follower = (await _followed(place, words, 1, 1))[0]
            firsts.append(follower.had[0] - words.at[0])
            ends.append(follower.ended_s or 0.0)
        return Streams(
            transport=transport,
            first_word_s=median(firsts),
            event_s=median(ends),
            alone=await _crowd(place, 1, 1),
            one_run=await _crowd(place, 1, crowd),
            many_runs=await _crowd(place, crowd, 1),
        )


async def _crowd(place: _Place, runs: int, each: int) -> Crowd:
    words, before = Words(), memory_mib(place.gateway, "VmRSS")
    asked, start_s = 0.0, 0.0

    async def begun() -> None:
        nonlocal asked, start_s
        asked, start_s = await place.asked(), time.time()

    followers = await _followed(place, words, runs, each, begun)
    calls = await place.asked() - asked
    grown = memory_mib(place.gateway, "VmRSS") - before
    lags = [had - words.at[n] for each in followers for n, had in enumerate(each.had)]
    if any(len(each.had) < WORDS for each in followers):
        raise RuntimeError("a follower has not got every word")
    return Crowd(
        runs=runs,
        followers=len(followers),
        worst_s=max(lags),
        middle_s=median(lags),
        last_end_s=max(follower.ended_s or 0.0 for follower in followers),
        kib_each=grown * KIB / len(followers),
        calls_per_s=calls / (time.time() - start_s),
    )


async def _followed(
    place: _Place,
    words: Words,
    runs: int,
    each: int,
    begun: Callable[[], Awaitable[None]] | None = None,
) -> list[Follower]:
    """Start Runs, follow each, say all the words, and wait for the end."""
    place.model.respond_with(words.answer)
    ids = await asyncio.gather(*[place.manager.start_run("talker", "Talk.") for _ in range(runs)])
    followers = await asyncio.gather(*[place.follow(run) for run in ids for _ in range(each)])
    while words.asked < runs:  # noqa: ASYNC110 - by another process
        await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLE_S)
    if begun is not None:
        await begun()
    for number in range(WORDS):
        words.say(number)
        await asyncio.sleep(EVERY_S)
    await asyncio.sleep(SAID_S)
    words.say(WORDS)
    async with asyncio.timeout(120):
        for follower in followers:
            await follower.is_done.wait()
    return followers


@asynccontextmanager
async def _served(stage: Stage) -> AsyncIterator[_Place]:
    async with AsyncExitStack() as parts:
        model = await parts.enter_async_context(ScriptedOpenAI(record=False))
        for _ in range(WORKERS):
            await parts.enter_async_context(worker(stage, QUEUE, model.base_url))
        port, metrics = free_port(), free_port()
        command = sys.executable, "-m", "perdure.gateway"
        environment = os.environ | {"PERDURE_TASK_QUEUE": QUEUE, "PERDURE_HTTP_PORT": str(port)}
        environment["PERDURE_HTTP_METRICS_PORT"] = str(metrics)
        with (stage.folder / "gateway.log").open("ab") as log:
            gateway = await asyncio.create_subprocess_exec(
                *command, stderr=log, cwd=stage.folder, env=environment
            )
        parts.push_async_callback(_stopped, gateway)
        await _until_open(port)
        yield _Place(RunManager(stage.client, QUEUE), model, gateway.pid, port, metrics)


@asynccontextmanager
async def _redis() -> AsyncIterator[str]:
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        *("redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        await _until_open(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        await _stopped(server)


async def _until_open(port: int) -> None:
    async with asyncio.timeout(60):
        while not await Address("127.0.0.1", port).is_open():  # noqa: ASYNC110 - by another process
            await asyncio.sleep(0.1)


async def _stopped(process: Child) -> None:
    if process.returncode is None:
        process.terminate()
    await process.wait()
