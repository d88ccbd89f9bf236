"""Which agents there are: the workers tell."""

import secrets
from datetime import timedelta

from temporalio.client import ActivityFailureError, Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.runs.catalogue import LIST_AGENTS, AgentList
from perdure.runs.errors import ConfigurationError, NoWorker

TOLD_WITHIN = timedelta(seconds=4)
"""A worker that is there answers within a tenth of a second."""


async def list_agents(client: Client, task_queue: str) -> AgentList:
    """Return the agents of one of the workers: all of a task queue are to serve the same.

    Raises:
        NoWorker: When none answers within a few seconds.
        ConfigurationError: When the Temporal server is too old to ask one.
        EngineUnavailable: When Temporal does not answer.
    """
    try:
        told: AgentList = await client.execute_activity(
            LIST_AGENTS,
            id=f"{LIST_AGENTS}-{secrets.token_hex(8)}",
            task_queue=task_queue,
            schedule_to_close_timeout=TOLD_WITHIN,
            retry_policy=RetryPolicy(maximum_attempts=1),
            result_type=AgentList,
        )
    except ActivityFailureError as exc:
        raise NoWorker(
            f"No worker of the task queue {task_queue!r} says which agents there are.",
            hint="Start one with `perdure worker`, or everything with `perdure dev`.",
        ) from exc
    except RPCError as exc:
        if exc.status is RPCStatusCode.UNIMPLEMENTED:
            raise ConfigurationError(
                "This Temporal server has no activities outside workflows.",
                hint="Use a newer one; see `perdure worker` for the agents meanwhile.",
            ) from exc
        raise follow.translated(exc, None) from exc
    return told
