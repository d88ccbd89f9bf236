"""Deleting a Session with its Runs, or one Run, as far as Temporal allows."""

import asyncio
import contextlib
from functools import partial

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import asking, changing, follow, reports
from perdure.runs.contract import RUN_WORKFLOW, SESSION_ATTRIBUTE, CancelRequest
from perdure.runs.errors import NoWorker, RunNotFound, SessionNotFound
from perdure.runs.frozen import Frozen
from perdure.runs.run import Run
from perdure.sessions import contract
from perdure.workflows.session import SessionWorkflow

END_WITHIN_S = 30.0
"""How long the Runs of a Session may take to end once they are told to."""
LISTED_WITHIN_S = 10.0
"""How far Temporal's list of workflows may be behind."""
LOOK_EVERY_S = 0.2

Execution = tuple[str, str]
"""Workflow id and run id."""


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
    try:
        known = await _ended(client, session_id)
        found = await _listed(client, _of_session(session_id), known)
        if not found:
            raise SessionNotFound(
                f"There is no Session {session_id!r}.",
                hint="`perdure sessions list` shows those there are.",
            )
        for execution in found:
            await _delete(client, execution)
    except RPCError as exc:
        raise follow.translated(exc, None) from exc
    return Deleted(run_ids=tuple(dict.fromkeys(each for each, _ in found if each != workflow_id)))


async def delete_run(client: Client, run_id: str) -> Deleted:
    """Cancel a Run if it goes on, then delete it and the Runs of agents that it has called.

    Raises:
        RunNotFound: When there is no such Run.
        NoWorker: When it does not end.
        EngineUnavailable: When Temporal does not answer.
    """
    try:
        found = await _with_called(client, run_id)
        for execution in found:
            await _delete(client, execution)
    except RPCError as exc:
        raise follow.translated(exc, run_id) from exc
    return Deleted(run_ids=tuple(dict.fromkeys(each for each, _ in found)))


async def _with_called(client: Client, run_id: str) -> list[Execution]:
    """Return the executions of a Run, once it has ended, and of those below it."""
    run = await _ended_run(client, run_id)
    latest = (run_id, (await follow.describe(client, run_id)).run_id)
    query = f"WorkflowType = '{RUN_WORKFLOW}' AND WorkflowId = '{run_id}'"
    found = await _listed(client, query, [latest])
    for step in run.steps[run.copied_steps :]:
        if step.child_run_id is not None:
            with contextlib.suppress(RunNotFound):  # deleted before
                found += await _with_called(client, step.child_run_id)
    return found


async def _ended_run(client: Client, run_id: str) -> Run:
    run = await follow.latest(client, run_id)
    if run.is_terminal:
        return run
    await changing.cancel(client, run_id, CancelRequest(reason="It is to be deleted."))
    try:
        async with asyncio.timeout(END_WITHIN_S):
            return await follow.ended(client, run_id)
    except TimeoutError as exc:
        raise NoWorker(
            f"Run {run_id!r} did not end within {END_WITHIN_S:g} s.",
            hint="It is told to; ask again when a worker has ended it.",
        ) from exc


async def _ended(client: Client, session_id: str) -> list[Execution]:
    """Let a Session and its Runs end; return the latest execution of each that was open."""
    workflow_id = contract.workflow_id(session_id)
    try:
        described = await reports.describe(client, session_id)
    except SessionNotFound:
        return []
    told = await reports.told(described, session_id)
    if described.status is WorkflowExecutionStatus.RUNNING:
        with contextlib.suppress(SessionNotFound):  # it ended at this very moment
            await _end(client, session_id, described.run_id)
    latest: list[Execution] = []
    for each in (workflow_id, told.active_run_id, *told.queue):
        try:
            if each is not None:
                latest.append((each, (await client.get_workflow_handle(each).describe()).run_id))
        except RPCError as exc:
            if exc.status is not RPCStatusCode.NOT_FOUND:
                raise
    return latest


async def _end(client: Client, session_id: str, execution: str) -> None:
    workflow_id = contract.workflow_id(session_id)
    handle = client.get_workflow_handle_for(SessionWorkflow.run, workflow_id)
    await asking.answered(session_id, partial(handle.execute_update, SessionWorkflow.on_close))
    try:
        async with asyncio.timeout(END_WITHIN_S):
            # Of this one: somebody may have begun another of its name by now.
            await client.get_workflow_handle(workflow_id, run_id=execution).result()
    except WorkflowFailureError:
        return
    except TimeoutError as exc:
        raise NoWorker(
            f"The Runs of Session {session_id!r} did not end within {END_WITHIN_S:g} s.",
            hint="They are told to; ask again when a worker has ended them.",
        ) from exc


def _of_session(session_id: str) -> str:
    kinds = f"WorkflowType IN ('{RUN_WORKFLOW}', '{contract.SESSION_WORKFLOW}')"
    # Runs of agents that its Runs have called are below it, and have no Session of their own.
    below = f"RootWorkflowId = '{contract.workflow_id(session_id)}'"
    return f"{kinds} AND ({SESSION_ATTRIBUTE} = '{session_id}' OR {below})"


async def _listed(client: Client, query: str, known: list[Execution]) -> list[Execution]:
    """Return everything that Temporal holds of that kind, once its list has what is known."""
    clock = asyncio.get_running_loop().time
    until = clock() + LISTED_WITHIN_S
    while True:
        found = [(each.id, each.run_id) async for each in client.list_workflows(query)]
        if all(each in found for each in known) or clock() > until:
            return [*found, *(each for each in known if each not in found)]
        await asyncio.sleep(LOOK_EVERY_S)


async def _delete(client: Client, execution: Execution) -> None:
    workflow_id, run_id = execution
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
    )
    try:
        await client.workflow_service.delete_workflow_execution(request)
    except RPCError as exc:
        if exc.status is not RPCStatusCode.NOT_FOUND:
            raise
