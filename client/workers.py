"""Whether anything would pick a Run up."""

import asyncio

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.runs.errors import NoWorker

LOOKS = 10
LOOK_EVERY_S = 0.3
"""A worker that is just starting is known to the server after a second at most."""


async def has_worker(client: Client, task_queue: str) -> bool:
    """Tell whether a worker polled the task queue within the last minutes."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    response = await client.workflow_service.describe_task_queue(request)
    return bool(response.pollers)


async def require_worker(client: Client, task_queue: str) -> None:
    """Refuse to start what would only wait.

    Workers that restart are still known to the server for some minutes, so a deployment does
    not refuse anybody.

    Raises:
        NoWorker: When nothing polls the task queue.
    """
    try:
        for _ in range(LOOKS):
            if await has_worker(client, task_queue):
                return
            await asyncio.sleep(LOOK_EVERY_S)
    except RPCError:
        # Not allowed to look, or the server is restarting: starting will tell.
        return
    else:
        raise NoWorker(
            f"No worker polls the task queue {task_queue!r}.",
            hint="Start one with `perdure worker`, or everything with `perdure dev`.",
        )
