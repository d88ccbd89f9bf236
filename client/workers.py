"""Whether anything would pick a Run up."""

import asyncio

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.runs.errors import NoWorker

LOOKS = 10
LOOK_EVERY_S = 0.3
"""A worker that is just starting is known to the server after a second at most."""

Version = tuple[str, str]
"""Deployment name and build id; both empty for workers without versioning."""


async def absence(client: Client, task_queue: str) -> NoWorker | None:
    """Return why no worker would pick a new Run up; none when one would.

    A worker counts that polled within the last minutes, if it is of the version that new Runs
    start on.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    response = await client.workflow_service.describe_task_queue(request)
    versions = {_version(poller) for poller in response.pollers}
    if versions & _starting(response.versioning_info):
        return None
    if not versions:
        return NoWorker(
            f"No worker polls the task queue {task_queue!r}.",
            hint="Start one with `perdure worker`, or everything with `perdure dev`.",
        )
    found = ", ".join(sorted(_named(version) for version in versions))
    wanted = " or ".join(sorted(map(_named, _starting(response.versioning_info))))
    return NoWorker(
        f"New Runs on the task queue {task_queue!r} start on {wanted}, but what polls is {found}.",
        hint="Start such a worker, or make another version current: "
        "`temporal worker deployment set-current-version`.",
    )


async def require_worker(client: Client, task_queue: str) -> None:
    """Refuse to start what would only wait.

    Workers that restart are still known to the server for some minutes, so a deployment does
    not refuse anybody.

    Raises:
        NoWorker: When nothing that polls the task queue would take it.
    """
    missing: NoWorker | None = None
    try:
        for _ in range(LOOKS):
            missing = await absence(client, task_queue)
            if missing is None:
                return
            await asyncio.sleep(LOOK_EVERY_S)
    except RPCError:
        # Not allowed to look, or the server is restarting: starting will tell.
        return
    if missing is not None:
        raise missing


def _version(poller: PollerInfo) -> Version:
    options = poller.deployment_options
    if options.worker_versioning_mode != WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED:
        return ("", "")
    return (options.deployment_name, options.build_id)


def _starting(info: TaskQueueVersioningInfo) -> set[Version]:
    """Return the versions that new Runs may start on."""
    current, ramping = info.current_deployment_version, info.ramping_deployment_version
    found = {(current.deployment_name, current.build_id)}
    if info.ramping_version_percentage:
        found.add((ramping.deployment_name, ramping.build_id))
    return found


def _named(version: Version) -> str:
    name, build_id = version
    return f"version {build_id!r} of {name!r}" if build_id else "a worker without a version"
