"""What holds for a model call: the Run's own limits and timeouts, its agent's, the defaults."""

from perdure.activities.endpoints import Endpoint
from perdure.agents.agent import Agent
from perdure.runs.contract import ModelRequest
from perdure.runs.limits import DEFAULT_ACTION_S, DEFAULT_TERMS, DEFAULT_TOOL_S, Limits, Terms
from perdure.runs.steps import RequestedCall


def terms_of(agent: Agent, request: ModelRequest, endpoint: Endpoint) -> Terms:
    """Return what the Run has settled; if nothing yet, all levels put together."""
    if request.terms is None:
        settled = Terms(
            limits=Limits(max_output_bytes=request.max_output_bytes), timeouts=request.timeouts
        )
        return settled.over(DEFAULT_TERMS)
    agents = Terms(
        limits=agent.limits,
        # A tool's own timeout wins over its agent's, so that is not settled for all tools.
        timeouts=agent.timeouts.model_copy(update={"tool_s": None}),
        on_limit=agent.on_limit,
        on_unknown=agent.on_unknown,
        context_window=agent.context_window or endpoint.context_window,
    )
    return request.terms.over(agents).over(DEFAULT_TERMS)


def timed(call: RequestedCall, agent: Agent, terms: Terms) -> RequestedCall:
    """Return a call with its timeout: the Run's, else the tool's, the agent's, the default.

    What waits for a person has its own; another agent's Run has the one that its tool says.
    """
    policy, patience = call.policy, terms.timeouts.action_s or DEFAULT_ACTION_S
    if policy.approval is not None:
        waits = policy.approval.model_copy(update={"expires_s": patience})
        policy = policy.model_copy(update={"approval": waits})
    if policy.kind == "question":
        policy = policy.model_copy(update={"timeout_s": patience})
    elif policy.kind == "function":
        declared = policy.timeout_s or agent.timeouts.tool_s or DEFAULT_TOOL_S
        timeout = {"timeout_s": terms.timeouts.tool_s or declared}
        policy = policy.model_copy(update=timeout)
    return call.model_copy(update={"policy": policy})
