"""The activity with which a worker tells which agents it serves."""

from temporalio import activity

from perdure.agents.agent import Agent
from perdure.agents.approval import ApprovalRule
from perdure.agents.registry import Registry
from perdure.agents.tool import AnyTool
from perdure.runs.catalogue import LIST_AGENTS, AgentInfo, AgentList, ToolInfo


class CatalogueActivities:
    """Tells what people are to know of the agents; neither instructions nor secrets.

    Args:
        registry: What the worker serves.
        default_model: Of agents that name none.
    """

    def __init__(self, registry: Registry, default_model: str) -> None:
        self._registry = registry
        self._default_model = default_model

    @activity.defn(name=LIST_AGENTS)
    async def list_agents(self) -> AgentList:
        """Return the agents, by name."""
        return AgentList(agents=tuple(self._told(each) for each, _ in self._registry.listing()))

    def _told(self, agent: Agent) -> AgentInfo:
        return AgentInfo(
            name=agent.name,
            description=agent.description,
            model=agent.model or self._default_model,
            tools=tuple(_tool(agent, each) for each in agent.tools),
            mcp_servers=tuple(each.name for each in agent.mcp_servers),
            limits=agent.limits,
            timeouts=agent.timeouts,
            on_limit=agent.on_limit,
            structured=agent.output is not None,
        )


def _tool(agent: Agent, tool: AnyTool) -> ToolInfo:
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        kind=tool.policy.kind,
        effect=tool.policy.effect,
        approval=_approval((tool.approval, agent.approval), tool),
        agent=tool.policy.target,
    )


def _approval(rules: tuple[ApprovalRule | None, ...], tool: AnyTool) -> str | None:
    if True in rules or ("unsafe" in rules and tool.policy.effect == "unsafe"):
        return "always"
    return "sometimes" if any(map(callable, rules)) else None
