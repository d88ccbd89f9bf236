"""All MCP servers of a worker: what agents get of them, and the activity that executes a call."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from pydantic import ValidationError
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from perdure.activities.failure import ToolProblem
from perdure.activities.mcp.problems import SAID_CHARS
from perdure.activities.mcp.results import result_text
from perdure.activities.mcp.session import Connection
from perdure.activities.mcp.tools import McpTool, usable_tools
from perdure.activities.tool import ToolActivity
from perdure.activities.toolbox import Toolbox, Tools
from perdure.agents.agent import Agent
from perdure.agents.context import tool_context
from perdure.agents.mcp import McpServer
from perdure.agents.registry import Registry
from perdure.agents.tool import AnyTool
from perdure.runs import contract
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.steps import ToolReply

logger = logging.getLogger(__name__)

UNTRIED_S = 60.0
"""How long an optional server that could not be started is not tried again by model Steps."""

Listing = tuple[types.Tool, ...]


class McpServers:
    """The MCP servers of one worker, each with one session for all Runs.

    Args:
        registry: The agents, and so their servers.
        executed: Returns the activity that executes a tool.
    """

    def __init__(self, registry: Registry, executed: Callable[[AnyTool], ToolActivity]) -> None:
        self._registry = registry
        self._executed = executed
        self._connections = {
            name: Connection(server) for name, server in registry.mcp_servers().items()
        }
        self._made: dict[int, tuple[Listing, tuple[McpTool, ...]]] = {}
        self._untried_until: dict[str, float] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Close all sessions after the block, in any order, whatever they are doing."""
        try:
            yield
        finally:
            await asyncio.gather(*(each.close() for each in self._connections.values()))

    async def tools_of(self, agent: Agent) -> Tools:
        """Return the tools of an agent: its own, then those of its servers, as they are now.

        Raises:
            ToolProblem: `mcp_unavailable`, when a server can't be used that is not optional.
        """
        asked = (self._offered(server) for server in agent.mcp_servers)
        found = await asyncio.gather(*asked, return_exceptions=True)
        offered: list[Sequence[McpTool]] = []
        for each in found:
            if isinstance(each, BaseException):
                raise each
            offered.append(each)
        return Toolbox((*agent.tools, *itertools.chain.from_iterable(offered)))

    @activity.defn(dynamic=True)
    async def call_tool(self, args: Sequence[RawValue]) -> ToolReply:
        """Execute a call of a tool of an MCP server: activities of any name that is not a tool's.

        Raises:
            ApplicationError: When the name does not belong to a server of the agent.
        """
        name = activity.info().activity_type
        if not name.startswith(contract.TOOL_PREFIX) or len(args) != 1:
            raise _unknown(name)
        converter = activity.payload_converter()
        request: ToolRequest = converter.from_payload(args[0].payload, ToolRequest)
        server = self._server(request)
        if server is None or name != contract.TOOL_PREFIX + request.name:
            raise _unknown(name)
        return await self._executed(self._tool(server, request.name))(request)

    def _server(self, request: ToolRequest) -> McpServer | None:
        agent = self._registry.agent(request.agent)
        servers = agent.mcp_servers if agent else ()
        return next((each for each in servers if request.name.startswith(each.prefix)), None)

    def _tool(self, server: McpServer, name: str) -> McpTool:
        """Return the tool as it was last offered here, or, where it was not, a stand-in."""
        for known in self._made.get(id(server), ((), ()))[1]:
            if known.name == name:
                return known
        unseen = types.Tool(name=name.removeprefix(server.prefix), input_schema={})
        stand_in = McpTool(server, unseen, self._run)
        stand_in.name = name
        return stand_in

    async def _offered(self, server: McpServer) -> Sequence[McpTool]:
        if time.monotonic() < self._untried_until.get(server.name, 0.0):
            return ()
        try:
            return await self._usable(server)
        except ToolProblem as exc:
            if not server.optional:
                raise
            told = {"code": exc.why.code, "content": exc.why.message}
            logger.warning("Going on without the tools of %r.", server.name, extra=told)
            self._untried_until[server.name] = time.monotonic() + UNTRIED_S
            return ()

    async def _usable(self, server: McpServer) -> tuple[McpTool, ...]:
        listing = await self._connections[server.name].tools()
        made = self._made.get(id(server))
        if made is None or made[0] is not listing:
            # Off the loop: checking the schemas of a hundred tools takes a third of a second.
            usable = await asyncio.to_thread(usable_tools, server, listing, self._run)
            made = self._made[id(server)] = (listing, usable)
        return made[1]

    async def _run(self, asked: McpTool, arguments: dict[str, Any]) -> str:
        """Execute a call by what the server offers now, which may not be what it did before."""
        server = asked.server
        connection = self._connections[server.name]
        usable = await self._usable(server)
        tool = next((each for each in usable if each.name == asked.name), None)
        if tool is None:
            why = f"The MCP server {server.name!r} does not offer {asked.name!r} any more."
            raise ToolProblem(error(ErrorCode.TOOL_NOT_FOUND, why))
        if tool is not asked:
            _check_again(tool, arguments)
        try:
            key = tool_context().idempotency_key
            result = await connection.call(tool.declared_name, arguments, key)
        except ToolProblem as exc:
            raise ToolProblem(_after_loss(exc.why, tool)) from None
        text = connection.redact.known(result_text(result))
        if result.is_error:
            said = connection.redact(without_lone_surrogates(text))[:SAID_CHARS]
            raise ToolProblem(error(ErrorCode.TOOL_FAILED, said or "The tool failed."))
        return text


def _check_again(tool: McpTool, arguments: dict[str, Any]) -> None:
    try:
        tool.expected.check(arguments)
    except ValidationError as exc:
        told = f"The tool has changed since it was called: {exc.errors()[0]['msg']}"
        raise ToolProblem(error(ErrorCode.TOOL_ARGUMENTS_INVALID, told)) from None


def _after_loss(why: RunError, tool: McpTool) -> RunError:
    if why.code is not ErrorCode.MCP_CONNECTION_LOST or tool.policy.effect != "unsafe":
        return why
    told = f"{why.message} Whether the tool had its effect is unknown."
    return error(ErrorCode.OUTCOME_UNKNOWN, told)


def _unknown(name: str) -> ApplicationError:
    # As the SDK says it of a name that no activity has: another worker may know it.
    return ApplicationError(
        f"Activity {name} is not registered on this worker.", type="NotFoundError"
    )
