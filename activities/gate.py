"""The gate where tool calls are executed: no yes of a person's, no execution.

The workflow asks people and hands their yes along; here it is checked against what is about to
be executed, so that a call which came another way, or changed on the way, is refused.
"""

from typing import Any

from pydantic import ValidationError

from perdure.agents.agent import Agent
from perdure.agents.approval import ProposedCall, approval_of
from perdure.agents.tool import AnyTool
from perdure.runs.actions import digest_of
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.model_json import problems
from perdure.runs.policy import Approval, Effect


def approval_needed(
    agent: Agent, tool: AnyTool, arguments: dict[str, Any], effect: Effect
) -> Approval | None:
    """Return that a person is to approve a call, if its tool or its agent says so."""
    call = ProposedCall(tool.name, arguments, effect)
    return approval_of((tool.approval, agent.approval), call)


def refusal(
    agent: Agent | None, tool: AnyTool, request: ToolRequest, run_id: str
) -> RunError | None:
    """Return why a call may not be executed, if it may not."""
    if agent is None:
        return error(ErrorCode.AGENT_NOT_FOUND, f"The worker has no agent {request.agent!r}.")
    try:
        arguments = tool.keyword_arguments(request.arguments)
    except ValidationError as exc:  # a person has edited them
        return error(ErrorCode.TOOL_ARGUMENTS_INVALID, told(exc))
    given = request.approval
    if given is None:
        needed = approval_needed(agent, tool, arguments, request.effect) is not None
        return error(ErrorCode.APPROVAL_MISSING) if needed else None
    if given.digest == digest_of(run_id, given.action_id, request.name, request.arguments):
        return None
    return error(ErrorCode.APPROVAL_MISSING, "What was approved is not what was to be executed.")


def told(exc: ValidationError) -> str:
    """Return what is wrong with arguments, as the model reads it."""
    return f"Arguments do not fit the schema: {problems(exc)}"
