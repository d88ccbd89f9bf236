"""Agents that call agents: one as a tool of another, or one that takes over from another."""

import re
from typing import TYPE_CHECKING, Any

from perdure.agents.tool import NAME_LENGTH, AnyTool, Tool
from perdure.runs.errors import ConfigurationError
from perdure.runs.policy import ToolPolicy

if TYPE_CHECKING:
    from perdure.agents.approval import ApprovalRule


def agent_tool(
    target: str,
    name: str | None,
    description: str,
    *,
    approval: "ApprovalRule | None" = None,
    timeout_s: float | None = None,
) -> AnyTool:
    """Return the tool that calls an agent: each call is a Run of its own.

    Args:
        target: The agent's name.
        name: For the model; made of the agent's name by default.
        description: What the agent is good for.
        approval: When a person is to approve the call.
        timeout_s: Seconds that the whole Run may take.
    """

    def call(input: str) -> Any:
        """Call another agent.

        Args:
            input: The task, in full: the other agent does not see this conversation.
        """
        raise _only_in_a_run(target)

    policy = ToolPolicy(kind="agent", target=target, timeout_s=timeout_s)
    tool = Tool(call, name or _tool_name(target), policy, approval)
    tool.describe(description or f"Let the agent {target!r} do a task, and return its output.")
    return tool


def handoff_tool(target: str, description: str = "") -> AnyTool:
    """Return the tool with which an agent lets another one go on with the conversation."""

    def hand_off() -> Any:
        """Hand the conversation over."""
        raise _only_in_a_run(target)

    name = f"handoff_to_{_tool_name(target)}"[:NAME_LENGTH]
    tool = Tool(hand_off, name, ToolPolicy(effect="read", kind="handoff", target=target))
    about = f" {description}" if description else ""
    tool.describe(f"Let the agent {target!r} go on with this conversation in your place.{about}")
    return tool


def _tool_name(agent: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", agent)[:NAME_LENGTH]


def _only_in_a_run(target: str) -> ConfigurationError:
    return ConfigurationError(
        f"Agent {target!r} is called by a Run.", hint="Start a Run of it: `perdure start`."
    )
