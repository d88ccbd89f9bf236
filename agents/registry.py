"""Which agents a worker knows, and where each came from.

Built explicitly when a worker starts, from modules, files and installed entry points, and
handed to the activities: there is no global registry, and importing has no side effects.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from perdure.agents.agent import Agent
from perdure.agents.mcp import SEPARATOR, McpServer
from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError

ENTRY_POINT_GROUP = "perdure.agents"


class Registry:
    """Agents by name. Two of one name are refused, naming both places."""

    def __init__(self) -> None:
        self._agents: dict[str, tuple[Agent, str]] = {}

    @classmethod
    def load(cls, sources: Iterable[str]) -> "Registry":
        """Load the agents that modules declare.

        Args:
            sources: Each a module (`acme.agents`), a file (`./agents.py`) or the name of an
                installed entry point of the group `perdure.agents`.

        Raises:
            ConfigurationError: When one can't be loaded or declares no agent.
        """
        registry = cls()
        for source in sources:
            module = _load(source)
            found = [value for value in vars(module).values() if isinstance(value, Agent)]
            if not found:
                raise ConfigurationError(
                    f"{source!r} declares no agent.",
                    hint="Put `name = Agent(…)` at the top level of the module.",
                )
            for agent in found:
                registry.add(agent, source)
        return registry

    def add(self, agent: Agent, source: str) -> None:
        """Add one agent.

        Raises:
            ConfigurationError: When another one, or another tool, has its name.
        """
        known = self._agents.get(agent.name)
        if known is not None:
            if known[0] is agent:
                return
            raise ConfigurationError(
                f"Agent {agent.name!r} is declared in {known[1]!r} and in {source!r}."
            )
        tools = self.tools()
        for each in agent.tools:
            # What is no function of ours needs no activity, so no name of its own.
            if each.policy.kind == "function" and tools.get(each.name, each) is not each:
                raise ConfigurationError(
                    f"Agent {agent.name!r} has a tool {each.name!r}; another agent has a "
                    "different tool of that name.",
                    hint="Tools of one worker need names of their own: @tool(name=…).",
                )
        self._check_servers(agent)
        self._agents[agent.name] = (agent, source)

    def check(self) -> None:
        """See to it that every agent is there that another one calls.

        Raises:
            ConfigurationError: When one is not.
        """
        for agent, source in self._agents.values():
            for each in agent.tools:
                target = each.policy.target
                if target is not None and target not in self._agents:
                    raise ConfigurationError(
                        f"Agent {agent.name!r} in {source!r} calls an agent {target!r}; "
                        "the worker has none of that name.",
                        hint="Load the module that declares it, too.",
                    )

    def _check_servers(self, agent: Agent) -> None:
        servers = self.mcp_servers() | {each.name: each for each in agent.mcp_servers}
        for server in agent.mcp_servers:
            known = self.mcp_servers().get(server.name, server)
            if known.connection != server.connection or type(known) is not type(server):
                raise ConfigurationError(
                    f"Agent {agent.name!r} has an MCP server {server.name!r}; another agent has "
                    "a different server of that name.",
                    hint="What differs may only be which tools are used, and how.",
                )
        for tool in [*self.tools().values(), *agent.tools]:
            server_name = tool.name.partition(SEPARATOR)[0]
            if SEPARATOR in tool.name and server_name in servers:
                raise ConfigurationError(
                    f"The tool {tool.name!r} is named like one of the MCP server {server_name!r}.",
                    hint="Rename it: @tool(name=…).",
                )

    def agent(self, name: str) -> Agent | None:
        """Return the agent of that name, if there is one."""
        found = self._agents.get(name)
        return found[0] if found else None

    def names(self) -> list[str]:
        """Return the names of all agents, sorted."""
        return sorted(self._agents)

    def listing(self) -> list[tuple[Agent, str]]:
        """Return each agent and where it came from, sorted by name."""
        return [self._agents[name] for name in self.names()]

    def mcp_servers(self) -> dict[str, McpServer]:
        """Return the MCP servers of all agents, by name; two agents may share one."""
        return {each.name: each for each in self.mcp_uses()}

    def mcp_uses(self) -> list[McpServer]:
        """Return the MCP servers as each agent declares them: one that two share stands twice."""
        return [each for agent, _ in self._agents.values() for each in agent.mcp_servers]

    def task_queues(self) -> set[str]:
        """Return the task queues that tools name, those of MCP servers included."""
        named = {each.task_queue for each in self.mcp_uses()}
        named |= {each.policy.task_queue for each in self.tools().values()}
        return {queue for queue in named if queue is not None}

    def tools(self) -> dict[str, AnyTool]:
        """Return the functions among the Python tools of all agents, by name."""
        tools = [each for agent, _ in self._agents.values() for each in agent.tools]
        return {each.name: each for each in tools if each.policy.kind == "function"}


def _load(source: str) -> ModuleType:
    try:
        return _imported(source)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as exc:  # whatever a user's module raises while imported
        raise ConfigurationError(
            f"Agents can't be loaded from {source!r}: {type(exc).__name__}: {exc}.",
            hint="Name an importable module, or a file such as ./agents.py.",
        ) from exc


def _imported(source: str) -> ModuleType:
    if source.endswith(".py") or os.sep in source:
        return _load_file(Path(source))
    module = next((p.value for p in entry_points(group=ENTRY_POINT_GROUP, name=source)), source)
    return importlib.import_module(module)


def _load_file(path: Path) -> ModuleType:
    # By location, without touching sys.path: the folder a worker starts in must not be able
    # to shadow installed packages.
    if not path.is_file():
        raise ConfigurationError(f"There is no file {str(path)!r} to load agents from.")
    name = f"perdure_agents_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{str(path)!r} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
