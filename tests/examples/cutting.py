"""A network on which no connection lasts."""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LASTS_S = 0.1, 1.0
REFUSED = 0.2
"""Of all connections: these are answered by somebody who is overloaded."""
NOT_NOW = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
POSITION = re.compile(rb"last-event-id: *(\S+)", re.IGNORECASE)


class Cutting:
    """Stands between a client and a server, and cuts every connection after a while, anywhere.

    Args:
        port: Of the server.
        seed: When it cuts.
    """

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._random = random.Random(seed)  # noqa: S311 - where to cut is no secret
        self.positions: list[str] = []
        """Those from which streams were gone on with."""
        self._cut = asyncio.Event()

    async def cuts(self) -> None:
        """Wait until a connection is cut."""
        self._cut.clear()
        await self._cut.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection, and end it."""
        with contextlib.suppress(OSError):
            if self._random.random() < REFUSED:
                await reader.read(1)
                writer.write(NOT_NOW)
                await writer.drain()
            else:
                await self._connected(reader, writer)
        writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._random.uniform(*LASTS_S)), asyncio.TaskGroup() as both:
                both.create_task(self._asks(reader, ours))
                both.create_task(self._answers(theirs, writer))
        self._cut.set()
        ours.transport.abort()

    async def _asks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(65_536):
            self.positions += [each.decode() for each in POSITION.findall(sent)]
            writer.write(sent)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(65_536):
            part = self._random.randrange(len(sent))
            writer.write(sent[:part])
            await writer.drain()
            if self._random.random() < REFUSED:
                await asyncio.sleep(LASTS_S[1])  # it is cut in the middle
            writer.write(sent[part:])


@asynccontextmanager
async def cutting(port: int, seed: int) -> AsyncIterator[tuple[str, Cutting]]:
    """Put one before a server for the length of the block; yield its address and it."""
    between = Cutting(port, seed)
    server = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", between
