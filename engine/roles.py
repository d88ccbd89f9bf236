"""What a worker process polls: the roles.

| role | workflows | models | tools |
|---|---|---|---|
| `all` | yes | yes | of its task queue, and of each that a tool names |
| `workflows` | yes | | |
| `activities` | | yes | of its task queue |
| with a tool queue | | | of that queue, and nothing else |
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from temporalio.api.enums.v1 import TaskQueueType

from perdure.engine.settings import Role, Settings
from perdure.runs.errors import ConfigurationError

ROLES: tuple[str, ...] = get_args(Role)
KINDS = {
    TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW: "workflows",
    TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY: "activities",
}
"""What is polled, as Temporal tells it apart, and as people do."""


@dataclass(frozen=True)
class Duty:
    """What a worker does on one task queue.

    Attributes:
        task_queue: Which.
        workflows: It decides what Runs and Sessions do, with the look-ups that they need for it.
        models: It calls models, tells which agents there are, and waits for Runs of Sessions.
        tools: It executes the tools of this task queue.
    """

    task_queue: str
    workflows: bool = False
    models: bool = False
    tools: bool = False

    def __str__(self) -> str:
        done = ("workflows", "models", "tools")
        served = [name for name in done if getattr(self, name)]
        return f"task queue {self.task_queue!r}: {', '.join(served)}"

    @property
    def executes(self) -> bool:
        """True when it executes Steps."""
        return self.models or self.tools

    @property
    def polls(self) -> list[TaskQueueType.ValueType]:
        """What it polls the task queue for."""
        polled = zip(KINDS, (self.workflows, self.executes), strict=True)
        return [kind for kind, is_polled in polled if is_polled]


def runs_agents(settings: Settings) -> bool:
    """Tell whether a worker needs the agents: for their models, or their tools."""
    return settings.tool_queue is not None or settings.worker_role != "workflows"


def calls_models(settings: Settings) -> bool:
    """Tell whether a worker needs a model provider."""
    return settings.tool_queue is None and settings.worker_role != "workflows"


def duties(settings: Settings, tool_queues: Collection[str]) -> list[Duty]:
    """Return what a worker does, one entry for each task queue.

    Args:
        settings: Its role.
        tool_queues: The task queues that its tools name.

    Raises:
        ConfigurationError: When it is to serve the tools of a task queue that none of them names.
    """
    main, role, only = settings.task_queue, settings.worker_role, settings.tool_queue
    if only is not None:
        if only not in tool_queues:
            raise ConfigurationError(
                f"No tool of the agents names the task queue {only!r}.",
                hint=f"Named are: {', '.join(sorted(tool_queues)) or 'none'}.",
            )
        return [Duty(only, tools=True)]
    if role == "workflows":
        return [Duty(main, workflows=True)]
    if role == "activities":
        return [Duty(main, models=True, tools=True)]
    others = sorted(set(tool_queues) - {main})
    everything = Duty(main, workflows=True, models=True, tools=True)
    return [everything, *(Duty(queue, tools=True) for queue in others)]
