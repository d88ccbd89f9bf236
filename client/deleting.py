"""Deleting a Session with its Runs, as far as Temporal allows."""

import asyncio

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import asking
from perdure.runs.contract import RUN_WORKFLOW, SESSION_ATTRIBUTE
from perdure.runs.errors import NoWorker, SessionNotFound
from perdure.runs.frozen import Frozen
from perdure.sessions import contract
from perdure.workflows.session import SessionWorkflow

END_WITHIN_S = 30.0
"""How long the Runs of a Session may take to end once they are told to."""


class Deleted(Frozen):
    """What was deleted."""

    run_ids: tuple[str, ...]
    """Runs whose histories Temporal was asked to delete."""


async def delete(client: Client, session_id: str) -> Deleted:
    """Cancel what goes on in a Session, then delete it and all its Runs.

    Raises:
        SessionNotFound: When nothing is left of it.
        NoWorker: When its Runs do not end.
        EngineUnavailable: When Temporal does not answer.
    """
    workflow_id = contract.workflow_id(session_id)
    handle = client.get_workflow_handle_for(SessionWorkflow.run, workflow_id)
    known = True
    try:
        described = await handle.describe()
        if described.status is WorkflowExecutionStatus.RUNNING:
            await _end(client, session_id)
    except RPCError as exc:
        if exc.status is not RPCStatusCode.NOT_FOUND:
            raise asking.missing(exc, session_id) from exc
        known = False
    found = await _executions(client, session_id)
    if not known and not found:
        raise SessionNotFound(
            f"There is no Session {session_id!r}.",
            hint="`perdure sessions list` shows those there are.",
        )
    for each, execution in found:
        await _delete(client, each, execution)
    return Deleted(run_ids=tuple(dict.fromkeys(each for each, _ in found if each != workflow_id)))


async def _end(client: Client, session_id: str) -> None:
    handle = client.get_workflow_handle_for(SessionWorkflow.run, contract.workflow_id(session_id))
    await asking.answered(session_id, handle.execute_update(SessionWorkflow.on_close))
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await handle.result()
    except WorkflowFailureError:
        return
    except TimeoutError as exc:
        raise NoWorker(
            f"The Runs of Session {session_id!r} did not end within {END_WITHIN_S:g} s.",
            hint="They are told to; ask again when a worker has ended them.",
        ) from exc


async def _executions(client: Client, session_id: str) -> list[tuple[str, str]]:
    """Return workflow and run ids of everything that Temporal holds of a Session."""
    kinds = f"WorkflowType IN ('{RUN_WORKFLOW}', '{contract.SESSION_WORKFLOW}')"
    query = f"{kinds} AND {SESSION_ATTRIBUTE} = '{session_id}'"
    return [(each.id, each.run_id) async for each in client.list_workflows(query)]


async def _delete(client: Client, workflow_id: str, execution: str) -> None:
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=execution),
    )
    try:
        await client.workflow_service.delete_workflow_execution(request)
    except RPCError as exc:
        if exc.status is not RPCStatusCode.NOT_FOUND:
            raise
