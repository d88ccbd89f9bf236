"""The tools of an agent at one moment: its own, and what its MCP servers offer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.agents.agent import Agent
from perdure.agents.tool import AnyTool


class Tools(Protocol):
    """What a model may call. An `Agent` without MCP servers is one by itself."""

    @property
    def tools(self) -> Sequence[AnyTool]:
        """All of them, in the order in which the model is told."""
        ...

    def tool(self, name: str) -> AnyTool | None:
        """Return the tool of that name, if there is one."""
        ...


class ToolSource(Protocol):
    """Where further tools come from."""

    async def tools_of(self, agent: Agent) -> Tools:
        """Return all tools that an agent has now.

        Raises:
            ToolProblem: When some can't be had without which it must not go on.
        """
        ...


@dataclass(frozen=True)
class Toolbox:
    """Tools from several places."""

    tools: Sequence[AnyTool]

    def tool(self, name: str) -> AnyTool | None:
        """Return the tool of that name, if there is one."""
        return next((each for each in self.tools if each.name == name), None)
