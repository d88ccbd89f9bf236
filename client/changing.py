"""Changing a Run that is going on: telling it to stop, raising its limits, any other update."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.client.patience import ANSWER_WITHIN_S, in_time
from perdure.client.starting import checked_reason
from perdure.client.workers import require_worker
from perdure.runs import contract, record
from perdure.runs.contract import CancelRequest, RaiseLimitsRequest
from perdure.runs.errors import InvalidRequest, NoWorker, RunNotFound
from perdure.runs.limits import Limits
from perdure.runs.run import Run
from perdure.workflows.run import RunWorkflow


async def cancel(client: Client, run_id: str, request: CancelRequest) -> Run:
    """Ask a Run to stop, and return it as it stands then; one that has ended is left alone.

    Raises:
        RunNotFound: When there is no such Run.
        InvalidRequest: When the reason is too long.
    """
    request = request.model_copy(update={"reason": checked_reason(request.reason)})
    if (await follow.describe(client, run_id)).workflow_type != contract.RUN_WORKFLOW:
        raise RunNotFound(f"There is no Run {run_id!r}; something else has that id.")
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

    def is_done(run: Run) -> bool:
        record.check_limits(run, limits)
        return False

    request = RaiseLimitsRequest(limits=limits)
    change = Change(contract.RAISE_LIMITS_UPDATE, request, is_done)
    return await changed(client, task_queue, run_id, change)


@dataclass(frozen=True)
class Change:
    """What a Run is told by an update.

    Attributes:
        update: Name of the update.
        request: Its input.
        is_done: Raises when a Run can't take it, tells whether it is so already.
        hint: What to do when the Run does not answer.
    """

    update: str
    request: BaseModel
    is_done: Callable[[Run], bool]
    hint: str = "Its worker may have died; look at the Run, and ask again."


async def changed(client: Client, task_queue: str, run_id: str, change: Change) -> Run:
    """Tell a Run something, and return it as it stands then.

    Raises:
        RunNotFound: When there is no such Run.
        NoWorker: When nothing would take the change, or it is not answered.
        PerdureError: As `change.is_done`.
    """
    run = await follow.latest(client, run_id)
    if change.is_done(run):
        return run
    await require_worker(client, task_queue)
    handle = client.get_workflow_handle(run_id)
    try:
        await in_time(handle.execute_update(change.update, change.request))
    except TimeoutError as exc:
        raise NoWorker(
            f"Run {run_id!r} did not answer within {ANSWER_WITHIN_S:g} s.", hint=change.hint
        ) from exc
    except (WorkflowUpdateFailedError, RPCError) as exc:
        gone = isinstance(exc, RPCError) and exc.status is RPCStatusCode.NOT_FOUND
        if isinstance(exc, RPCError) and not gone:
            raise follow.translated(exc, run_id) from exc
        # It may have ended, or gone on, between the check and the update.
        run = await follow.latest(client, run_id)
        if change.is_done(run):
            return run
        raise InvalidRequest(f"Run {run_id!r} refused: {exc.__cause__ or exc}.") from exc
    return await follow.latest(client, run_id)
