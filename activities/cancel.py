"""The activity with which a Run asks Temporal to cancel it, which it can't ask for itself."""

from temporalio import activity

from perdure.runs import contract
from perdure.runs.contract import CancelRequest


@activity.defn(name=contract.REQUEST_CANCEL)
async def request_cancel(request: CancelRequest) -> None:
    """Request the cancellation of the workflow that calls this."""
    info = activity.info()
    handle = activity.client().get_workflow_handle(
        info.workflow_id or "", run_id=info.workflow_run_id
    )
    await handle.cancel(reason=request.reason)
