"""The agent whose calls are measured: of a function, of an MCP server, of another agent.

One agent for all, so that every request offers the same tools.
"""

from perdure import Agent, tool
from tests.mcp.launching import scripted


@tool(effect="read")
async def echo(text: str) -> str:
    """Say something."""
    return f"echo: {text}"


helper = Agent(name="helper", instructions="Say it back.")
caller = Agent(
    name="caller",
    instructions="Call what you are told to.",
    tools=[echo, helper.as_tool(name="ask_helper")],
    mcp_servers=[scripted("s", include=["echo"], trusted=True)],
)
