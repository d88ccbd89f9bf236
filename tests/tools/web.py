"""A web server that answers what a test says, byte by byte, and counts who connects."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from perdure.tools.addresses import networks
from perdure.tools.fetch import Fetcher

LOOPBACK = networks(["127.0.0.1/32"])


def page(body: bytes, kind: str = "text/plain", **headers: str) -> bytes:
    """Return a whole answer."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(location: str) -> bytes:
    """Return an answer that sends elsewhere."""
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass
class Web:
    """What is served where, and what was asked for."""

    host: str
    port: int = 0
    pages: Mapping[str, bytes] = field(default_factory=dict)
    endless: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """Paths whose answer begins and then repeats a part until nobody listens."""
    connections: int = 0
    requests: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            path = head.split()[1]
            if path in self.endless:
                begin, part = self.endless[path]
                writer.write(begin)
                while not writer.is_closing() and not reader.at_eof():
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
            writer.write(self.pages[path])
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Web]:
    """Serve while the block lasts."""
    web = Web(host)
    server = await asyncio.start_server(web.serve, host, port)
    web.port = server.sockets[0].getsockname()[1]
    async with server:
        yield web


def fetcher(web: Web, *addresses: str) -> Fetcher:
    """Return what knows every name as the server, or as the addresses."""

    async def resolve(host: str, port: int) -> list[str]:
        if host.rstrip(".").endswith(".test"):
            return list(addresses or [web.host])
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [str(entry[4][0]) for entry in found]

    return Fetcher(frozenset([web.port]), LOOPBACK, resolve)
