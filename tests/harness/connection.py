"""One keep-alive HTTP connection of the scripted server.

An `asyncio.Protocol`, not a pair of streams: the client's going away is then a callback, and
no task has to watch for it. h11 reads the requests and frames the answers.
"""

import asyncio
from typing import Protocol, cast

import h11

from tests.harness.pages import Frame, Page
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import BEFORE_HEADERS, Ending


class Desk(Protocol):
    """What a connection needs from its server."""

    connections: set["Connection"]

    def accept(self, connection: "Connection") -> None:
        """Take note of a new connection."""

    def receive(self, head: h11.Request, raw: bytes) -> tuple[RecordedRequest, Page]:
        """Record a request and say what to answer. Must not raise."""


class Connection(asyncio.Protocol):
    """Reads requests one after the other and answers each as its page says."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._http = h11.Connection(h11.SERVER)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._current: RecordedRequest | None = None
        self._answer: asyncio.Task[None] | None = None
        self._unsent: list[Frame] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server's connections."""
        self._transport = cast(asyncio.Transport, transport)
        self._desk.accept(self)

    def data_received(self, data: bytes) -> None:
        """Read on; h11 keeps what comes before the answer is complete."""
        self._http.receive_data(data)
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the client has gone, if it went before its answer was complete."""
        if self._current is not None:
            self._current.disconnected.set()
        if self._answer is not None:
            self._answer.cancel()
        self._desk.connections.discard(self)
        self._lost.set()

    def pause_writing(self) -> None:
        """Stop sending: the client reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._writable.set()

    @property
    def is_idle(self) -> bool:
        """True between two requests."""
        return self._current is None

    def reset(self) -> None:
        """Close at once, whatever was under way; nothing more is read."""
        self._transport.abort()

    async def abort(self) -> None:
        """Close at once and wait until nothing of this connection runs any more."""
        self.reset()
        await self._lost.wait()
        if self._answer is not None:
            await asyncio.wait([self._answer])

    def _read(self) -> None:
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self._begin_answer()
                else:  # NEED_DATA, or PAUSED until the answer is complete
                    return
        except h11.RemoteProtocolError:
            self._transport.abort()

    def _begin_answer(self) -> None:
        assert self._head is not None
        request, page = self._desk.receive(self._head, bytes(self._body))
        self._body.clear()
        self._current = request
        self._answer = asyncio.get_running_loop().create_task(self._send(request, page))

    async def _send(self, request: RecordedRequest, page: Page) -> None:
        try:
            await self._send_page(request, page)
        except h11.LocalProtocolError:  # a page that is no HTTP: fail now, do not hang the client
            self._transport.abort()
            raise

    async def _send_page(self, request: RecordedRequest, page: Page) -> None:
        await self._wait_at(page, BEFORE_HEADERS)
        if not page.silent:
            self._queue(h11.Response(status_code=page.status, headers=list(page.headers)))
            for position, frame in enumerate(page.frames):
                if page.delay_s or position in page.gates:
                    await self._flush(request)
                    await self._wait_at(page, position)
                self._queue(h11.Data(data=frame.data), frame)
            if page.ending in (Ending.COMPLETE, Ending.WITHOUT_DONE):
                self._queue(h11.EndOfMessage())
            await self._flush(request)
        self._finish(request, page.ending)

    async def _wait_at(self, page: Page, position: int) -> None:
        if page.delay_s and position != BEFORE_HEADERS:
            await asyncio.sleep(page.delay_s)
        if position in page.gates:
            await page.gates[position].pass_through()

    def _queue(self, event: h11.Event, frame: Frame | None = None) -> None:
        data = self._http.send(event) or b""
        self._unsent.append(Frame(data, frame.usage if frame else None, frame is not None))

    async def _flush(self, request: RecordedRequest) -> None:
        """Send what is queued in one write: one system call for a whole small answer."""
        unsent, self._unsent = self._unsent, []
        self._transport.write(b"".join(frame.data for frame in unsent))
        await self._writable.wait()
        for frame in unsent:
            request.reported_usage = frame.usage or request.reported_usage
            request.chunks_sent += frame.is_chunk

    def _finish(self, request: RecordedRequest, ending: Ending) -> None:
        if ending is Ending.HANG:
            return  # still the current request: the client's going away is to be noted
        self._current = None
        request.completed.set()
        if ending is Ending.CUT or self._http.our_state is h11.MUST_CLOSE:
            self._transport.close()
            return
        self._http.start_next_cycle()
        self._read()
