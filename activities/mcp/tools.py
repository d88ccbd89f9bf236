"""The tools of MCP servers as the rest of a worker knows tools."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import jsonschema
import mcp_types as types

from perdure.activities.mcp.schema import ArgumentSchema
from perdure.agents.context import ToolContext
from perdure.agents.mcp import McpServer
from perdure.agents.tool import ATTEMPTS, Tool
from perdure.runs.messages import canonical_json, without_lone_surrogates
from perdure.runs.policy import ToolPolicy

logger = logging.getLogger(__name__)

MAX_TOOLS = 128
"""Tools of one server that an agent gets: as many as OpenAI takes in one request."""
MAX_SCHEMA_BYTES = 32 * 1024
"""Schema of one tool, as JSON."""
MAX_SCHEMAS_BYTES = 256 * 1024
"""Names, descriptions and schemas of the tools of one server: every request repeats them."""
MAX_DESCRIPTION_CHARS = 4096

Run = Callable[["McpTool", dict[str, Any]], Awaitable[str]]
"""Executes a call of a tool."""


class McpTool(Tool[..., Any]):
    """A tool of an MCP server.

    Args:
        server: Whose it is.
        declared: What the server says of it.
        run: Executes a call.

    Raises:
        ValueError: When its schema can't be given to a model.
    """

    def __init__(self, server: McpServer, declared: types.Tool, run: Run) -> None:
        hints = declared.annotations or types.ToolAnnotations()
        effect = server.effect(
            declared.name,
            read_only=hints.read_only_hint is True,
            idempotent=hints.idempotent_hint is True,
        )
        super().__init__(
            _nothing,
            server.model_name(declared.name),
            ToolPolicy(
                effect=effect,
                timeout_s=server.timeout_s,
                max_attempts=ATTEMPTS[effect],
                task_queue=server.task_queue,
            ),
            server.approval,
        )
        self.server = server
        self.declared_name = declared.name
        self.description = _description(declared)
        parameters = {"type": "object", "properties": {}} | declared.input_schema
        if len(canonical_json(parameters)) > MAX_SCHEMA_BYTES:
            raise ValueError(f"its schema is over {MAX_SCHEMA_BYTES:,} bytes")
        try:
            self.expected = ArgumentSchema(self.name, parameters)
        except jsonschema.SchemaError as exc:
            raise ValueError(f"its schema is none: {exc.message[:200]}") from None
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        self.schema = {"type": "function", "function": function}

        async def call(**arguments: Any) -> str:
            return await run(self, arguments)

        self.function = call

    def keyword_arguments(self, text: str, context: ToolContext | None = None) -> dict[str, Any]:
        """Read a JSON object of arguments.

        Raises:
            pydantic.ValidationError: When they do not fit the server's schema.
        """
        arguments: dict[str, Any] = json.loads(text)
        self.expected.check(arguments)
        return arguments


async def _nothing() -> None:
    """Stand in for the function until there is one."""


def _description(declared: types.Tool) -> str:
    said = without_lone_surrogates(declared.description or declared.title or "")
    return said if len(said) <= MAX_DESCRIPTION_CHARS else said[: MAX_DESCRIPTION_CHARS - 1] + "…"


def usable_tools(server: McpServer, listed: Iterable[types.Tool], run: Run) -> tuple[McpTool, ...]:
    """Return the tools of a server that an agent can be given, in the server's order.

    What is left out is logged: a tool with a schema that would make the provider refuse the
    whole request, the second tool of a name, and what is beyond the limits.
    """
    kept: dict[str, McpTool] = {}
    size = 0
    for declared in listed:
        if not server.offers(declared.name):
            continue
        try:
            made = McpTool(server, declared, run)
            size += len(canonical_json(made.schema))
            if made.name in kept:
                raise ValueError("another one has its name")
        except (ValueError, RecursionError) as exc:
            shown = without_lone_surrogates(declared.name)[:100]
            logger.warning("Tool %r of MCP server %r is left out: %s", shown, server.name, exc)
            continue
        if len(kept) == MAX_TOOLS or size > MAX_SCHEMAS_BYTES:
            logger.warning("MCP server %r offers too much; choose: include=[…]", server.name)
            break
        kept[made.name] = made
    return tuple(kept.values())
