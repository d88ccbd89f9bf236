"""A model server that answers by script, over real HTTP: the tests' only model.

    async with ScriptedOpenAI() as server:
        server.script([tool_calls(call("calculate", {"expression": "1+1"})), text("2")])
        ...  # point a client at server.base_url
        assert server.violations == []

As a program, `python -m tests.harness.scripted_openai --turns 3 --result-bytes 100` serves the
same tool-using conversation to any number of Runs: see `echo_conversation`.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import reduce
from types import TracebackType
from typing import Self

import h11

from tests.harness.connection import Connection
from tests.harness.pages import Page, chunk, render
from tests.harness.recorded import RecordedRequest, parse_body
from tests.harness.replies import (
    Call,
    Gate,
    Reply,
    Usage,
    call,
    chunks,
    drop,
    hang,
    no_answer,
    raw,
    status,
    text,
    tool_calls,
)
from tests.harness.transcript_rules import check_request

__all__ = [
    "Call",
    "Gate",
    "RecordedRequest",
    "Reply",
    "ScriptedOpenAI",
    "Usage",
    "call",
    "chunk",
    "chunks",
    "drop",
    "echo_conversation",
    "hang",
    "no_answer",
    "raw",
    "status",
    "text",
    "tool_calls",
]

Answer = Callable[[RecordedRequest], Reply]
Matcher = Callable[[RecordedRequest], bool]


class ScriptedOpenAI:
    """A Chat Completions server on a free port of 127.0.0.1.

    Replies are chosen in this order: the queues of `on` whose matcher holds, then the queue of
    `script`, then `respond_with`. If none has a reply, the answer is a 400 and a violation.

    Args:
        record: False keeps and checks no request, for benchmarks: memory stays flat.
        port: A fixed port, to come back at the same address; 0 takes a free one.
    """

    def __init__(self, *, record: bool = True, port: int = 0) -> None:
        self.requests: list[RecordedRequest] = []
        self.violations: list[str] = []
        self.connections: set[Connection] = set()
        self.accepted = 0
        """Connections so far, those that are closed included."""
        self._record = record
        self._port = port
        self._count = 0
        self._arrived = asyncio.Event()
        self._queues: list[tuple[Matcher, deque[Reply]]] = []
        self._script: deque[Reply] = deque()
        self._answer: Answer | None = None
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Start listening.

        Raises:
            OSError: the port is taken.
        """
        await self._listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening and close every connection at once, whatever it waits for."""
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*(connection.abort() for connection in self.connections))
        await self._server.wait_closed()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def outage(self, for_s: float) -> None:
        """Break off every connection, and refuse new ones for so many seconds."""
        assert self._server is not None
        self._server.close()
        for connection in list(self.connections):
            connection.reset()
        await asyncio.sleep(for_s)
        await self._listen()

    @property
    def base_url(self) -> str:
        """The address to give to a client, such as `http://127.0.0.1:40123/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def reported_usage(self) -> Usage:
        """The sum of all usage that was sent, of unfinished replies too."""
        sent = (r.reported_usage for r in self.requests if r.reported_usage is not None)
        return reduce(Usage.plus, sent, Usage(0, 0))

    def script(self, replies: Sequence[Reply]) -> None:
        """Add replies, one a request, in order, whoever asks."""
        self._script.extend(replies)

    def on(self, matches: Matcher, *replies: Reply) -> None:
        """Add replies, one a request, in order, for requests of which `matches` is true."""
        self._queues.append((matches, deque(replies)))

    def respond_with(self, answer: Answer) -> None:
        """Compute the reply whenever no queue has one. An exception of it is a violation."""
        self._answer = answer

    async def wait_for_requests(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until `count` requests have arrived since the start.

        Raises:
            TimeoutError: they did not within `timeout_s` seconds.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._count < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            message = f"{self._count} of {count} requests arrived within {timeout_s} s"
            raise TimeoutError(message) from None

    def accept(self, connection: Connection) -> None:
        """Take note of a new connection; connections call this themselves."""
        self.connections.add(connection)
        self.accepted += 1

    def receive(self, head: h11.Request, raw: bytes) -> tuple[RecordedRequest, Page]:
        """Record and check a request, and say what to answer; connections call this."""
        body, violations = parse_body(raw) if raw else ({}, [])
        request = RecordedRequest(
            index=self._count,
            method=head.method.decode(),
            path=head.target.decode(),
            headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
            raw=raw,
            body=body,
            arrived_at=time.monotonic(),
        )
        self._count += 1
        if self._record:
            self.requests.append(request)
        self._arrived.set()
        if request.method != "POST" or request.path.partition("?")[0] != "/v1/chat/completions":
            return request, render(status(404), request)
        if self._record:
            self._note(request, *violations, *check_request(body))
        return request, self._page(request)

    def _page(self, request: RecordedRequest) -> Page:
        try:
            return render(self._choose(request), request)
        except Exception as error:  # noqa: BLE001 - of a test's own callable: must reach the test, not a log
            self._note(request, f"the script failed: {error!r}")
            return render(status(400), request)

    def _choose(self, request: RecordedRequest) -> Reply:
        for matches, queue in self._queues:
            if queue and matches(request):
                return queue.popleft()
        if self._script:
            return self._script.popleft()
        if self._answer is not None:
            return self._answer(request)
        self._note(request, "the script has no reply left")
        return status(400)  # a status that clients do not retry, so that the test ends soon

    def _note(self, request: RecordedRequest, *violations: str) -> None:
        self.violations += [f"request {request.index}: {violation}" for violation in violations]


def echo_conversation(turns: int, result_bytes: int) -> Answer:
    """Return an answer that plays one conversation: `turns` calls of the tool `echo`, then text.

    The turn is the number of assistant messages in the request, so nothing is remembered and
    any number of conversations can go on at once. The argument `text` is `result_bytes` ASCII
    characters, different in every turn; a tool that returns it gives a result of that size.
    """

    def answer(request: RecordedRequest) -> Reply:
        turn = sum(message.get("role") == "assistant" for message in request.messages)
        if turn >= turns:
            return text(f"Done after {turn} turns.")
        return tool_calls(
            call("echo", {"text": f"{turn} ".ljust(result_bytes, "x")[:result_bytes]})
        )

    return answer


async def _serve(turns: int, result_bytes: int, delay_s: float) -> None:
    conversation = echo_conversation(turns, result_bytes)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ScriptedOpenAI(record=False) as server:
        server.respond_with(lambda request: conversation(request).delayed(delay_s))
        sys.stdout.write(json.dumps({"base_url": server.base_url}) + "\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM; the first line of standard output is the address, as JSON."""
    parser = argparse.ArgumentParser(description="A model server that plays one conversation.")
    parser.add_argument("--turns", type=int, default=1, help="tool calls before the final text")
    parser.add_argument("--result-bytes", type=int, default=100, help="size of each argument")
    parser.add_argument("--delay-s", type=float, default=0.0, help="seconds before each chunk")
    options = parser.parse_args()
    asyncio.run(_serve(options.turns, options.result_bytes, options.delay_s))


if __name__ == "__main__":
    main()
