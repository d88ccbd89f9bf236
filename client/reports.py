"""Where a Session stands, as its memo tells: no worker is asked."""

import asyncio

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.runs.errors import PerdureError, RunNotFound, SessionNotFound
from perdure.sessions import contract
from perdure.sessions.contract import SessionReport

CATCH_UP_S = 10.0
"""How long a Session may take to notice that its Run has ended, while something is to follow."""
READ_S = 2.0
"""The same, while somebody only looks: there may be no worker."""
LOOK_EVERY_S = 0.05


async def report(client: Client, session_id: str, within_s: float = READ_S) -> SessionReport:
    """Return where a Session stands, once it has noticed that its Run has ended.

    Args:
        client: Connected with our data converter.
        session_id: Which Session.
        within_s: How long to wait for that.

    Raises:
        SessionNotFound: When there is no such Session.
        EngineUnavailable: When Temporal does not answer.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + within_s
    while True:
        described = await describe(client, session_id)
        found = await told(described, session_id)
        is_open = described.status is WorkflowExecutionStatus.RUNNING
        if not is_open or found.active_run_id is None or clock() > until:
            return found
        if not await has_ended(client, found.active_run_id):
            return found
        await asyncio.sleep(LOOK_EVERY_S)


async def describe(client: Client, session_id: str) -> WorkflowExecutionDescription:
    """Return what Temporal knows of the Session's latest execution.

    Raises:
        SessionNotFound: When there is none.
        EngineUnavailable: When the server does not answer.
    """
    try:
        return await client.get_workflow_handle(contract.workflow_id(session_id)).describe()
    except RPCError as exc:
        raise missing(exc, session_id) from exc


async def told(described: WorkflowExecutionDescription, session_id: str) -> SessionReport:
    """Return what a Session has said of itself; one that has not said anything has just begun."""
    memo = await described.memo_value(contract.REPORT_MEMO, None)
    if memo is not None:
        found = SessionReport.model_validate(memo)
        return found.model_copy(update={"ended_at": described.close_time})
    start = described.start_time
    return SessionReport(
        session_id=session_id, created_at=start, last_active_at=start, expires_at=start
    )


async def has_ended(client: Client, run_id: str) -> bool:
    """Tell whether a Run has ended, or was deleted; it counts as open when that is unknown."""
    try:
        described = await follow.describe(client, run_id)
    except RunNotFound:
        return True
    except PerdureError:
        return False
    return described.status is not WorkflowExecutionStatus.RUNNING


def missing(exc: RPCError, session_id: str) -> PerdureError:
    """Return Temporal's refusal in our words: a Session that has ended is none."""
    if is_missing(exc):
        return SessionNotFound(
            f"There is no Session {session_id!r}, or it has ended.",
            hint="`perdure sessions list` shows those there are.",
        )
    return follow.translated(exc, None)


def is_missing(exc: RPCError) -> bool:
    """Tell whether Temporal has no such workflow, or only one that has ended."""
    return exc.status is RPCStatusCode.NOT_FOUND and "namespace" not in exc.message.lower()
