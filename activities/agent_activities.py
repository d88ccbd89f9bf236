"""The activities that a worker has for its agents: models, and tools by task queue."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.activities.catalogue import CatalogueActivities
from perdure.activities.endpoints import Endpoints
from perdure.activities.model import ModelActivities, Models
from perdure.activities.tool import Surroundings, tool_activity
from perdure.agents.registry import Registry

if TYPE_CHECKING:
    # Loaded where an agent has such servers: the SDK takes a second and a half to import.
    from perdure.activities.mcp.servers import McpServers

Activity = Callable[..., Any]


class AgentActivities:
    """Makes the activities of a registry's agents.

    Args:
        registry: The agents.
        given: What the worker has for their tools.
    """

    def __init__(self, registry: Registry, given: Surroundings) -> None:
        self._registry = registry
        self._given = given
        self._servers = self._mcp_servers()

    @property
    def contexts(self) -> list[Callable[[], AbstractAsyncContextManager[None]]]:
        """What has to be closed once no activity runs any more."""
        return [self._servers.serving] if self._servers is not None else []

    def models(self, endpoints: Endpoints, models: Models) -> list[Activity]:
        """Return those that call models, and the one that tells which agents there are.

        Args:
            endpoints: The models, and their providers.
            models: What the worker knows about models.
        """
        recent = self._given.transcripts
        model = ModelActivities(self._registry, endpoints, models, recent, self._servers)
        return [model.call_model, CatalogueActivities(self._registry, models.default).list_agents]

    def tools(self, task_queue: str, main: str) -> list[Activity]:
        """Return those that execute the tools of a task queue.

        Args:
            task_queue: Which.
            main: The one of tools that name none.
        """
        found: list[Activity] = [
            tool_activity(tool, self._given)
            for tool in self._registry.tools().values()
            if (tool.policy.task_queue or main) == task_queue
        ]
        queues = {each.task_queue or main for each in self._registry.mcp_uses()}
        if self._servers is not None and task_queue in queues:
            found.append(self._servers.call_tool)
        return found

    def _mcp_servers(self) -> "McpServers | None":
        if not self._registry.mcp_uses():
            return None
        from perdure.activities.mcp.servers import McpServers

        return McpServers(self._registry, partial(tool_activity, given=self._given))
