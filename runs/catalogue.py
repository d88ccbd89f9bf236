"""What workers tell of the agents that they serve, on the wire between a client and a worker.

Never rename what is here, and only add fields: a worker may be older than the client.
"""

from perdure.runs.frozen import Frozen
from perdure.runs.limits import Limits, OnLimit, Timeouts
from perdure.runs.policy import CallKind, Effect

LIST_AGENTS = "list_agents"
"""The activity that tells; of no workflow."""


class ToolInfo(Frozen):
    """A tool, as people are to know it."""

    name: str
    description: str = ""
    kind: CallKind = "function"
    effect: Effect = "unsafe"
    approval: str | None = None
    """Which calls wait for a person's yes: `always`, or `sometimes`, as a function says; none of
    them when not set."""
    agent: str | None = None
    """The agent that it calls, or hands over to."""


class AgentInfo(Frozen):
    """An agent, as callers are to know it."""

    name: str
    description: str = ""
    model: str | None = None
    tools: tuple[ToolInfo, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    """Names of the MCP servers whose tools it has besides."""
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    on_limit: OnLimit | None = None
    structured: bool = False
    """Its output is JSON of a type of its own."""


class AgentList(Frozen):
    """The agents that there are, by name."""

    agents: tuple[AgentInfo, ...] = ()
