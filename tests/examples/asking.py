"""What a scripted model reads, and what the tests of the examples read of a Run."""

from typing import Any

from perdure.agents.agent import Agent
from perdure.runs.run import Run
from tests.harness.recorded import RecordedRequest


def is_of(agent: Agent) -> Any:
    """Match the requests of one agent."""
    return lambda request: request.messages[0]["content"] == agent.instructions


def told(request: RecordedRequest) -> list[str]:
    """Return the results of the tools that were called last, as the model reads them."""
    results: list[str] = []
    for message in reversed(request.messages):
        if message["role"] != "tool":
            break
        results.insert(0, message["content"])
    return results


def results(run: Run, tool: str) -> list[str]:
    """Return what the model was told of the calls of one tool."""
    return [each.result or "" for each in run.tool_calls if each.name == tool]
