"""What a worker polls, by its role."""

import pytest

from perdure import Agent, StdioServer, tool
from perdure.agents.registry import Registry
from perdure.engine.roles import Duty, calls_models, duties, runs_agents
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError

QUEUES = {"gpu", "main", "vault"}
"""One tool names the worker's own task queue, which changes nothing."""
EVERYTHING = Duty("main", workflows=True, models=True, tools=True)


@pytest.mark.parametrize(
    ("role", "tool_queue", "expected"),
    [
        ("all", None, [EVERYTHING, Duty("gpu", tools=True), Duty("vault", tools=True)]),
        ("workflows", None, [Duty("main", workflows=True)]),
        ("activities", None, [Duty("main", models=True, tools=True)]),
        ("all", "gpu", [Duty("gpu", tools=True)]),
        ("workflows", "gpu", [Duty("gpu", tools=True)]),
    ],
)
def test_a_worker_polls_what_its_role_says(
    role: str, tool_queue: str | None, expected: list[Duty]
) -> None:
    settings = Settings(task_queue="main").model_copy(
        update={"worker_role": role, "tool_queue": tool_queue}
    )
    assert duties(settings, QUEUES) == expected
    assert calls_models(settings) is any(duty.models for duty in expected)
    assert runs_agents(settings) is any(duty.executes for duty in expected)


def test_a_task_queue_that_no_tool_names_is_refused() -> None:
    settings = Settings(task_queue="main", tool_queue="gpus")
    with pytest.raises(ConfigurationError, match=r"names the task queue 'gpus'\. Named are: gpu,"):
        duties(settings, QUEUES)


def test_a_registry_knows_the_task_queues_of_its_tools_and_of_its_mcp_servers() -> None:
    @tool(task_queue="gpu")
    def render() -> str:
        """Render."""
        return ""

    registry = Registry()
    registry.add(
        Agent(name="a", tools=[render], mcp_servers=[StdioServer("s", "true", task_queue="vault")]),
        "test",
    )
    registry.add(Agent(name="b", mcp_servers=[StdioServer("s", "true")]), "test")
    assert registry.task_queues() == {"gpu", "vault"}


@pytest.mark.parametrize("name", ["", "a b", "/_sys/x", "é", "x" * 129])
def test_a_task_queue_needs_a_name_that_can_be_typed(name: str) -> None:
    with pytest.raises(ConfigurationError, match="A task queue can't be named"):
        tool(task_queue=name)
    with pytest.raises(ConfigurationError, match="A task queue can't be named"):
        StdioServer("s", "true", task_queue=name)
