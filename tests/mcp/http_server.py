"""MCP servers over streamable HTTP, in this process: one made with the SDK, one that misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.conftest import free_port

Answer = Callable[["FaultyServer", dict[str, Any]], Coroutine[Any, Any, Response]]


@asynccontextmanager
async def served(app: Any, path: str = "/mcp") -> AsyncIterator[str]:
    """Serve an application, and say where."""
    port = free_port()
    config = uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        server.should_exit = True
        await serving


class SdkServer:
    """A server made with the official SDK, with a tool that waits to be cancelled."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.started = asyncio.Event()
        self.server = MCPServer("sdk")

        @self.server.tool()
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        @self.server.tool()
        async def wait() -> str:
            """Wait to be cancelled."""
            self.started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "never"

    def app(self) -> Any:
        """Return the application to serve."""
        return self.server.streamable_http_app()


class FaultyServer:
    """A server with sessions that answers `tools/call` as the test says."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.calls = 0
        self.answer: Answer = answers_well

    def app(self) -> Starlette:
        """Return the application to serve."""
        return Starlette(routes=[Route("/mcp", self.handle, methods=["GET", "POST", "DELETE"])])

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        self.headers.append(dict(request.headers))
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        method, session = message.get("method"), request.headers.get("mcp-session-id")
        if method == "initialize":
            self.sessions.append(f"session-{len(self.sessions)}")
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
            return ok(message, result, {"mcp-session-id": self.sessions[-1]})
        if session not in self.sessions:
            return JSONResponse({"error": "no such session"}, 404)
        if "id" not in message:
            return Response(status_code=202)
        if method == "tools/list":
            tools = [{"name": "do", "inputSchema": {"type": "object"}}]
            return ok(message, {"tools": tools})
        self.calls += 1
        return await self.answer(self, message)


def ok(message: dict[str, Any], result: Any, headers: dict[str, str] | None = None) -> Response:
    """Return an answer as it should be."""
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


async def answers_well(server: FaultyServer, message: dict[str, Any]) -> Response:
    return ok(message, {"content": [{"type": "text", "text": "done"}]})


def status(code: int) -> Answer:
    async def answer(server: FaultyServer, message: dict[str, Any]) -> Response:
        return Response("<html>no</html>", status_code=code)

    return answer


async def breaks_off(server: FaultyServer, message: dict[str, Any]) -> Response:
    async def body() -> AsyncIterator[bytes]:
        yield b'{"jsonrpc"'
        raise ConnectionResetError

    return StreamingResponse(body(), media_type="application/json")


async def breaks_off_events(server: FaultyServer, message: dict[str, Any]) -> Response:
    async def body() -> AsyncIterator[bytes]:
        yield b": hello\n\n"

    return StreamingResponse(body(), media_type="text/event-stream")


def large(size: int, kind: str) -> Answer:
    """Return what answers with so much text, as `json` or as `events`."""

    async def answer(server: FaultyServer, message: dict[str, Any]) -> Response:
        async def body() -> AsyncIterator[bytes]:
            head = {"jsonrpc": "2.0", "id": message["id"]}
            start = json.dumps(head)[:-1] + ',"result":{"content":[{"type":"text","text":"'
            yield (b"" if kind == "json" else b"data: ") + start.encode()
            for _ in range(size // 65536):
                yield b"x" * 65536
            yield b'"}]}}' + (b"" if kind == "json" else b"\n\n")

        media = "application/json" if kind == "json" else "text/event-stream"
        return StreamingResponse(body(), media_type=media)

    return answer
