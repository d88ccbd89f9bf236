"""What tests ask of Temporal behind our back."""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tests.harness.engine import soon


async def delete_workflow(client: Client, workflow_id: str, run_id: str = "") -> None:
    """Delete an execution, the latest by default, open or not, as Temporal's command line does."""
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
    )
    await client.workflow_service.delete_workflow_execution(request)


async def exists(client: Client, workflow_id: str) -> bool:
    """Tell whether Temporal has a workflow, open or not."""
    try:
        await client.get_workflow_handle(workflow_id).describe()
    except RPCError as exc:
        if exc.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def listed(client: Client, *workflow_ids: str) -> None:
    """Wait until Temporal's list, which is a moment behind, has these workflows."""

    async def are_listed() -> bool:
        names = ", ".join(f"'{each}'" for each in workflow_ids)
        count = await client.count_workflows(f"WorkflowId IN ({names})")
        return count.count >= len(workflow_ids)

    await soon(are_listed)
