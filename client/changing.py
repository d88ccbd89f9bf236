"""Changing a Run that is going on: telling it to stop, raising its limits."""

import asyncio

from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.client.starting import checked_reason
from perdure.client.workers import require_worker
from perdure.runs import record
from perdure.runs.contract import CancelRequest, RaiseLimitsRequest
from perdure.runs.errors import InvalidRequest, NoWorker
from perdure.runs.limits import Limits
from perdure.runs.run import Run
from perdure.workflows.run import RunWorkflow

ANSWER_WITHIN_S = 30.0
"""How long a Run may take to answer: a worker that died is replaced within that."""


async def cancel(client: Client, run_id: str, request: CancelRequest) -> Run:
    """Ask a Run to stop, and return it as it stands then; one that has ended is left alone.

    Raises:
        RunNotFound: When there is no such Run.
        InvalidRequest: When the reason is too long.
    """
    request = request.model_copy(update={"reason": checked_reason(request.reason)})
    handle = client.get_workflow_handle(run_id)
    try:
        if request.mode == "now":
            await handle.cancel(reason=request.reason)
        else:
            await handle.signal(RunWorkflow.on_cancel, request)
    except RPCError as exc:
        # A closed workflow is "not found" to a request; describing it tells which.
        if exc.status is not RPCStatusCode.NOT_FOUND:
            raise follow.translated(exc, run_id) from exc
    return await follow.latest(client, run_id)


async def raise_limits(client: Client, task_queue: str, run_id: str, limits: Limits) -> Run:
    """Change how much a Run may use, and return it as it stands then.

    Raises:
        RunNotFound: When there is no such Run.
        RunAlreadyTerminal: When it has ended.
        InvalidRequest: When it waits for a limit, and this is not enough.
        NoWorker: When nothing would take the change.
    """
    record.check_limits(await follow.latest(client, run_id), limits)
    await require_worker(client, task_queue)
    handle = client.get_workflow_handle(run_id)
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await handle.execute_update(
                RunWorkflow.on_raise_limits, RaiseLimitsRequest(limits=limits)
            )
    except TimeoutError as exc:
        raise NoWorker(
            f"Run {run_id!r} did not answer within {ANSWER_WITHIN_S:g} s.",
            hint="Its worker may have died; the change takes hold when one has it again.",
        ) from exc
    except WorkflowUpdateFailedError as exc:
        # It may have ended, or gone on, between the check and the update.
        record.check_limits(await follow.latest(client, run_id), limits)
        raise InvalidRequest(f"The Run refused the limits: {exc.cause}.") from exc
    except RPCError as exc:
        if exc.status is RPCStatusCode.NOT_FOUND:
            record.check_limits(await follow.latest(client, run_id), limits)
        raise follow.translated(exc, run_id) from exc
    return await follow.latest(client, run_id)
