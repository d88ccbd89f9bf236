"""One long-lived session with one MCP server, for all Runs of a worker.

One task owns it: it opens the transport, waits, and closes it again, so that no cancel scope of
the SDK is left by another task than the one that entered it. Calls are made by the tasks of the
activities; when one is cancelled, the SDK tells the server so.
"""

import asyncio
import importlib.metadata
import logging
import os
import time
from contextvars import Context
from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from perdure.activities.mcp import wire
from perdure.activities.mcp.hearing import Hearing
from perdure.activities.mcp.problems import call_problem, start_problem, told
from perdure.activities.mcp.transports import connected
from perdure.activities.redaction import Redactor
from perdure.agents.mcp import HttpServer, McpServer
from perdure.runs.errors import ErrorCode

logger = logging.getLogger(__name__)

MAX_PAGES = 100
MAX_LISTED = 1000
"""Pages, and tools, that are read of a server that does not stop listing."""
LISTING_AGE_S = 60.0
"""How old a list of tools may become over HTTP, where the notice of a change may get lost."""
CLOSE_S = 10.0
"""For a session to close; then its task is cancelled."""
NOT_MODERN = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
"""How a server that only speaks versions without a handshake answers one."""
CLIENT = types.Implementation(name="perdure", version=importlib.metadata.version("perdure"))


class _Open:
    """An open session, or one that is being opened."""

    def __init__(self) -> None:
        self.session: ClientSession
        self.over = asyncio.Event()
        """Set when it is to be closed, and when the connection has ended by itself."""
        self.tools: tuple[types.Tool, ...] = ()
        self.listed_at = 0.0
        self.stale = False
        self.calls = 0
        self.retired = False
        """It takes no new calls, and is closed after the last one."""

    @property
    def is_spent(self) -> bool:
        """True when nothing new is to be asked of it."""
        return self.retired or self.over.is_set()

    async def heard(self, message: IncomingMessage) -> None:
        """Hear what the server says unasked."""
        if isinstance(message, types.ToolListChangedNotification):
            self.stale = True

    async def list(self) -> None:
        """Ask for the tools."""
        self.stale = False  # first: a notice that comes meanwhile counts
        tools = await _listed(self.session)
        self.listed_at = time.monotonic()
        if tools != self.tools:
            self.tools = tools

    def retire(self) -> None:
        """Take no more calls."""
        self.retired = True
        self.left()

    def left(self) -> None:
        """Note that a call has ended."""
        if self.retired and self.calls == 0:
            self.over.set()


class Connection:
    """The session with one server: opened when it is needed, and again when it has ended.

    Args:
        server: Which, and how it is reached.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.redact = Redactor(os.environ.get(each.variable, "") for each in server.secrets)
        self._current: asyncio.Future[_Open] | None = None
        self._owners: dict[asyncio.Task[None], _Open] = {}
        self._listing = asyncio.Lock()
        self._closed = False

    async def tools(self) -> tuple[types.Tool, ...]:
        """Return what the server offers now: the same tuple as before, if nothing has changed.

        Raises:
            ToolProblem: `mcp_unavailable`.
        """
        async with self._listing:
            current = await self._opened()
            age_s = time.monotonic() - current.listed_at
            if current.stale or (isinstance(self._server, HttpServer) and age_s > LISTING_AGE_S):
                current = await self._listed_again(current)
            return current.tools

    async def call(self, tool: str, arguments: dict[str, Any], key: str) -> types.CallToolResult:
        """Call a tool.

        *Cancellation*: the server is told, and the session goes on.

        Args:
            tool: The server's own name for it.
            arguments: Sent as they are.
            key: Idempotency key, for servers that know what that is.

        Raises:
            ToolProblem: When there is no result.
        """
        meta = {"perdure/idempotency-key": key} if key else None
        request = types.CallToolRequest.model_validate(
            {"params": {"name": tool, "arguments": arguments, "_meta": meta}}
        )
        for _ in range(2):
            current = await self._opened()
            current.calls += 1
            try:
                # Not the SDK's `call_tool`: when the server breaks the schema that it announced,
                # that throws the result away, after the tool has run.
                return await current.session.send_request(request, types.CallToolResult)
            except MCPError as exc:
                if exc.error.code != wire.GONE:
                    raise call_problem(self._server.name, exc.error, self.redact) from None
                current.retired = True  # nothing was executed: the server knew no such session
            except ValidationError:
                why = "its answer is no result of a tool"
                raise told(ErrorCode.TOOL_FAILED, self._server.name, why) from None
            finally:
                current.calls -= 1
                current.left()
        why = "it has forgotten its session twice"
        raise told(ErrorCode.MCP_UNAVAILABLE, self._server.name, why)

    async def close(self) -> None:
        """Close the session for good, whatever it is doing."""
        self._closed = True
        opening = self._current is not None and not self._current.done()
        owners = dict(self._owners)
        for owner, current in owners.items():
            current.over.set()
            if opening:
                owner.cancel()
        if owners:
            _, late = await asyncio.wait(owners, timeout=CLOSE_S)
            for owner in late:
                owner.cancel()

    async def _opened(self) -> _Open:
        if self._closed:
            raise start_problem(self._server, None, "", self.redact)
        current = self._current
        if current is None or (current.done() and _is_spent(current)):
            current = self._current = asyncio.get_running_loop().create_future()
            # Whoever asked may be gone by the time that it fails.
            current.add_done_callback(lambda failed: failed.cancelled() or failed.exception())
            opening = _Open()
            # For all Runs: in no Step's context, or its lines would bear the ids of this one.
            owner = asyncio.create_task(
                self._own(opening, current), name=self._server.name, context=Context()
            )
            self._owners[owner] = opening
            owner.add_done_callback(self._owners.pop)
        return await asyncio.shield(current)

    async def _own(self, opening: _Open, opened: "asyncio.Future[_Open]") -> None:
        hearing = Hearing(self._server.name, self.redact)
        why: BaseException | None = None
        try:
            async with connected(self._server, opening.over, hearing.hear) as streams:
                opening.session = ClientSession(
                    *streams, message_handler=opening.heard, client_info=CLIENT
                )
                async with opening.session:
                    await self._begin(opening)
                    opened.set_result(opening)
                    await opening.over.wait()
        except Exception as exc:  # noqa: BLE001 - whatever a server makes the SDK raise
            why = exc
        finally:
            opening.over.set()
            problem = start_problem(self._server, why, hearing.last_words, self.redact)
            if not opened.done():
                opened.set_exception(problem)
            elif why is not None:
                told = {"code": problem.why.code, "content": problem.why.message}
                logger.warning("MCP server %r is lost", self._server.name, extra=told)

    async def _begin(self, opening: _Open) -> None:
        with anyio.fail_after(self._server.start_timeout_s):
            try:
                await opening.session.initialize()
            except MCPError as exc:
                if exc.error.code not in NOT_MODERN:
                    raise
                await opening.session.discover()
            await opening.list()

    async def _listed_again(self, current: _Open) -> _Open:
        try:
            with anyio.fail_after(self._server.start_timeout_s):
                await current.list()
        except (MCPError, TimeoutError, ValidationError) as exc:
            if isinstance(exc, MCPError) and exc.error.code == wire.GONE:
                current.retire()
            if current.is_spent:
                return await self._opened()
            # What it offered before may still be there.
            current.listed_at = time.monotonic()
            why = self.redact(str(exc))[:300]
            name, said = self._server.name, {"content": why}
            logger.warning("MCP server %r does not list its tools", name, extra=said)
        return current


def _is_spent(opened: "asyncio.Future[_Open]") -> bool:
    return opened.exception() is not None or opened.result().is_spent


async def _listed(session: ClientSession) -> tuple[types.Tool, ...]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        asked = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            page = await session.list_tools(params=asked)
        except MCPError as exc:
            if exc.error.code == types.METHOD_NOT_FOUND and not tools:
                return ()  # a server of prompts or resources only
            raise
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= MAX_LISTED:
            break
    return tuple(tools[:MAX_LISTED])
