"""How a server is reached, with the secrets that it is given."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from perdure.activities.failure import ToolProblem
from perdure.activities.mcp.http import McpHttpClient
from perdure.activities.mcp.stdio import Launch, StdioTransport
from perdure.activities.mcp.wire import MAX_HTTP_BYTES
from perdure.agents.mcp import HttpServer, McpServer, Secret, StdioServer
from perdure.runs.errors import ErrorCode, error


@asynccontextmanager
async def connected(
    server: McpServer, over: asyncio.Event, hear: Callable[[bytes], None]
) -> AsyncIterator[TransportStreams]:
    """Connect to a server while the block runs.

    Args:
        server: Which.
        over: Set when the connection has ended by itself.
        hear: Called with each line that a process says besides the protocol.

    Raises:
        ToolProblem: `mcp_unavailable`, when a secret is missing.
    """
    if isinstance(server, StdioServer):
        env = _filled_in(server, server.env)
        launch = Launch(server.command, tuple(server.args), env, server.cwd)
        async with StdioTransport(launch, over, hear) as streams:
            yield streams
    elif isinstance(server, HttpServer):
        async with (
            McpHttpClient(_filled_in(server, server.headers)) as client,
            streamable_http_client(
                server.url, http_client=client, max_sse_event_size=MAX_HTTP_BYTES
            ) as streams,
        ):
            yield streams


def _filled_in(server: McpServer, values: Mapping[str, str | Secret]) -> dict[str, str]:
    filled: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Secret):
            known = os.environ.get(value.variable)
            if not known:
                why = (
                    f"The MCP server {server.name!r} can't be started: the worker has no "
                    f"environment variable {value.variable}."
                )
                raise ToolProblem(error(ErrorCode.MCP_UNAVAILABLE, why))
            value = value.form.format(known)
        filled[name] = value
    return filled
