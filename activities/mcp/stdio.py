"""An MCP server as a child process: its messages by lines, its end noticed, nothing left behind.

The SDK has such a transport. This one bounds what it keeps of a line (the SDK's copies the whole
line with every 64 KB that arrive), reads stderr, and notices a server's exit by the exit itself:
a grandchild that holds the pipes open would hide it.
"""

import asyncio
import contextlib
import os
import re
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic_core import from_json

from perdure.activities.mcp.wire import MAX_MESSAGE_BYTES, TOO_LARGE, no_answer

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
CHUNK_BYTES = 64 * 1024
UNSENT_MESSAGES = 64
"""Messages that wait for a server that does not read; a cancel must not wait behind them."""
FLUSH_S = 0.5
"""For what was said last to be written, and for what a dead server said last to be read."""
LEAVE_S = 2.0
"""For a server to exit when its stdin is closed; then it gets SIGTERM."""
TERM_S = 2.0
"""For it to exit then; then it gets SIGKILL."""
SHOWN_BYTES = 500
"""Of one line that is no message."""

_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*[,}]')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


@dataclass(frozen=True)
class Launch:
    """How a server is started."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    """Besides what it inherits."""
    cwd: str | None = None


class _Watched(SubprocessStreamProtocol):
    """Tells of the exit itself; `Process.wait` would wait for the pipes too."""

    def __init__(self) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Called by the event loop, once the process is reaped."""
        super().process_exited()
        self.exited.set()


class StdioTransport:
    """One server process. Entering starts it, leaving ends it, however it behaves.

    Args:
        launch: How it is started.
        over: Set when the connection has ended, before the streams say so.
        hear: Called with each line of stderr, and of stdout that is no message.
    """

    def __init__(self, launch: Launch, over: asyncio.Event, hear: Callable[[bytes], None]) -> None:
        self._launch = launch
        self._over = over
        self._hear = hear
        self._streams: list[anyio.abc.AsyncResource] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._process: Process
        self._stdin: asyncio.StreamWriter
        self._pipes: asyncio.SubprocessTransport
        self._watched: _Watched

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        """Start the process.

        Raises:
            OSError: When there is no such executable or folder.
            ValueError: When an argument can't be given to a process.
        """
        launch = self._launch
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        loop = asyncio.get_running_loop()
        self._pipes, self._watched = await loop.subprocess_exec(
            _Watched,
            launch.command,
            *launch.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=inherited | dict(launch.env),
            cwd=launch.cwd,
            start_new_session=True,
        )
        self._process = Process(self._pipes, self._watched, loop)
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise OSError("it was started without pipes")
        told, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](UNSENT_MESSAGES)
        self._streams = [told, incoming, outgoing, sent]
        self._stdin = stdin
        reader = asyncio.create_task(self._read(stdout, told))
        writer = asyncio.create_task(self._write(stdin, sent))
        listener = asyncio.create_task(self._listen(stderr))
        watcher = asyncio.create_task(self._watch(reader, listener, told))
        self._tasks = [writer, reader, listener, watcher]
        return incoming, outgoing

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close stdin, wait, then end the process and all that it started."""
        writer, *others = self._tasks
        try:
            self._over.set()
            await asyncio.wait({writer}, timeout=FLUSH_S)
            self._stdin.close()
            await self._exit()
        finally:
            self._signal(signal.SIGKILL)
            for task in (writer, *others):
                task.cancel()
            await asyncio.gather(writer, *others, return_exceptions=True)
            for stream in self._streams:
                await stream.aclose()
            self._pipes.close()  # a grandchild that left the group may hold the other ends

    async def _exit(self) -> None:
        for within_s, then in ((LEAVE_S, signal.SIGTERM), (TERM_S, signal.SIGKILL), (TERM_S, None)):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._watched.exited.wait(), within_s)
                return
            if then is not None:
                self._signal(then)

    def _signal(self, number: signal.Signals) -> None:
        # The group has the server's own id, and outlives it while a child of it lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _watch(
        self,
        reader: "asyncio.Task[None]",
        listener: "asyncio.Task[None]",
        told: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        exited = asyncio.create_task(self._watched.exited.wait())
        await asyncio.wait({exited, reader}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({exited, reader, listener}, timeout=FLUSH_S)
        exited.cancel()
        if self._process.returncode is not None and not self._over.is_set():
            self._hear(f"exited with code {self._process.returncode}".encode())
        self._over.set()
        await told.aclose()

    async def _read(
        self,
        stdout: asyncio.StreamReader,
        told: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        line = _Line()
        while chunk := await stdout.read(CHUNK_BYTES):
            *ended, rest = chunk.split(b"\n")
            for piece in ended:
                line.add(piece)
                message = line.message()
                if message is not None:
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await told.send(message)
                elif line.is_hopeless:
                    return
                elif line.start.strip():
                    self._hear(line.start)
                line = _Line()
            line.add(rest)

    async def _write(
        self, stdin: asyncio.StreamWriter, sent: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        async for one in sent:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
            except (ConnectionError, RuntimeError):
                return  # it has closed its stdin: its exit, or the call's time limit, ends this

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        line = b""
        while chunk := await stderr.read(CHUNK_BYTES):
            *ended, line = (line + chunk).split(b"\n")
            for one in ended:
                self._hear(one[:SHOWN_BYTES])
            line = line[:SHOWN_BYTES]
        if line:
            self._hear(line)


class _Line:
    """A line of stdout; of one that is too long, only the beginning and the end are kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._end = b""
        self._size = 0

    @property
    def start(self) -> bytes:
        """The beginning."""
        return bytes(self._kept[:SHOWN_BYTES])

    @property
    def is_too_long(self) -> bool:
        """True when it is not kept whole."""
        return self._size > MAX_MESSAGE_BYTES

    @property
    def is_hopeless(self) -> bool:
        """True when somebody may wait for it, and nobody can say who."""
        return self.is_too_long and self._kept.lstrip()[:1] == b"{" and self._answered() is None

    def add(self, piece: bytes) -> None:
        """Add what arrived."""
        self._size += len(piece)
        if self.is_too_long:
            self._kept = self._kept[:SHOWN_BYTES]
            self._end = (self._end + piece)[-SHOWN_BYTES:]
        else:
            self._kept += piece

    def message(self) -> SessionMessage | None:
        """Return the message that it is, if it is one. Forgets the text: it may be large."""
        if self.is_too_long:
            answered = self._answered()
            if answered is None:
                return None
            why = f"The server's answer has {self._size:,} bytes."
            return SessionMessage(no_answer(answered, TOO_LARGE, why))
        try:
            # Not by the adapter at once: that takes twice the memory (424 MB of 64 MiB, not 232).
            parsed = from_json(self._kept)
            message = jsonrpc_message_adapter.validate_python(parsed, by_name=False)
        except ValueError:
            return None
        self._kept = bytearray()
        return SessionMessage(message)

    def _answered(self) -> int | None:
        found = _ID_FIRST.match(self._kept) or _ID_LAST.search(self._end)
        return int(found[1]) if found else None
