"""Worker versioning: which version a worker is, and who is the first.

A Run stays on the version that it started on. New ones start on the current version, which an
operator chooses: `temporal worker deployment set-current-version`.
"""

import asyncio

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import WorkerDeploymentConfig

from perdure.engine.settings import Settings

TRIES = 50
TRY_EVERY_S = 0.2
"""A new version is known to the server a moment after its first poll."""


def deployment(settings: Settings) -> WorkerDeploymentConfig | None:
    """Return the version that the settings name, if they name one."""
    if settings.deployment_name is None or settings.build_id is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.deployment_name, settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


async def make_first_current(client: Client, settings: Settings) -> bool:
    """Make our version the current one where there is none and nobody else serves the queue.

    Nothing would start any Run there otherwise. Every later version is an operator's to choose.

    Returns:
        False when it can't be done: somebody has to choose by hand.
    """
    for _ in range(TRIES):
        try:
            if not await _is_free(client, settings.task_queue):
                return True
            await client.workflow_service.set_worker_deployment_current_version(
                SetWorkerDeploymentCurrentVersionRequest(
                    namespace=client.namespace,
                    deployment_name=settings.deployment_name or "",
                    build_id=settings.build_id or "",
                    identity=client.identity,
                )
            )
        except RPCError:
            await asyncio.sleep(TRY_EVERY_S)
    return False


async def _is_free(client: Client, task_queue: str) -> bool:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    found = await client.workflow_service.describe_task_queue(request)
    versioned = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    modes = [poller.deployment_options.worker_versioning_mode for poller in found.pollers]
    return not found.versioning_info.current_deployment_version.build_id and all(
        mode == versioned for mode in modes
    )
