"""Finding Runs: filters, summaries and pages, from Temporal's visibility store."""

import asyncio
import base64
import hashlib
from datetime import UTC, datetime

from pydantic import PositiveInt
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.runs.contract import (
    AGENT_ATTRIBUTE,
    CREATED_MEMO,
    RUN_WORKFLOW,
    SESSION_ATTRIBUTE,
    STATUS_ATTRIBUTE,
    WAITING_ATTRIBUTE,
)
from perdure.runs.errors import InvalidRequest
from perdure.runs.frozen import Frozen
from perdure.runs.ids import Name
from perdure.runs.status import RunStatus
from perdure.sessions.contract import workflow_id
from perdure.workflows.visible import AGENT, COST, SESSION, STATUS, TOKENS, WAITING

_STATUS_QUERIES = {
    RunStatus.PENDING: f"ExecutionStatus = 'Running' AND {STATUS_ATTRIBUTE} = 'pending'",
    RunStatus.RUNNING: f"ExecutionStatus = 'Running' AND {STATUS_ATTRIBUTE} != 'pending'",
    RunStatus.COMPLETED: "ExecutionStatus = 'Completed'",
    RunStatus.FAILED: f"ExecutionStatus = 'Failed' AND {STATUS_ATTRIBUTE} != 'timeout'",
    RunStatus.CANCELLED: "ExecutionStatus IN ('Canceled', 'Terminated')",
    RunStatus.TIMEOUT: f"(ExecutionStatus = 'TimedOut' OR {STATUS_ATTRIBUTE} = 'timeout')",
}
"""Temporal's own status comes first: it is right even when no worker could write ours."""

_CLOSED = {
    WorkflowExecutionStatus.COMPLETED: RunStatus.COMPLETED,
    WorkflowExecutionStatus.CANCELED: RunStatus.CANCELLED,
    WorkflowExecutionStatus.TERMINATED: RunStatus.CANCELLED,
    WorkflowExecutionStatus.TIMED_OUT: RunStatus.TIMEOUT,
}

_NOT_CALLED = f"(ParentWorkflowId IS NULL OR ParentWorkflowId STARTS_WITH '{workflow_id('')}')"
"""A Session starts Runs, too; but it is no Run."""

MARK_BYTES = 6

_RESUMABLE = (
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.CANCELED,
    WorkflowExecutionStatus.TERMINATED,
    WorkflowExecutionStatus.TIMED_OUT,
)


class RunFilter(Frozen):
    """Which Runs to list; what is not set does not restrict."""

    status: RunStatus | None = None
    waiting: bool = False
    """Only Runs that wait for a person."""
    agent: Name | None = None
    session_id: Name | None = None
    with_called: bool = False
    """With a `session_id`: also the Runs that its Runs have called, and those in turn."""
    top_level: bool = False
    """Only Runs that no other Run has called."""
    created_after: datetime | None = None
    created_before: datetime | None = None
    is_open: bool = False
    """Only Runs that have not ended."""
    id_prefix: Name | None = None
    """Only Runs whose ids begin so."""

    def query(self) -> str:
        """Return the filter as a Temporal visibility query."""
        # Executions that continued as new are parts of Runs, not Runs.
        parts = [f"WorkflowType = '{RUN_WORKFLOW}'", "ExecutionStatus != 'ContinuedAsNew'"]
        if self.status is not None:
            parts.append(_STATUS_QUERIES[self.status])
        if self.waiting:
            parts.append(f"ExecutionStatus = 'Running' AND {WAITING_ATTRIBUTE} > ''")
        if self.agent is not None:
            parts.append(f"{AGENT_ATTRIBUTE} = '{self.agent}'")
        if self.session_id is not None:
            parts.append(self._of_session(self.session_id))
        if self.top_level:
            parts.append(_NOT_CALLED)
        if self.is_open:
            parts.append("ExecutionStatus = 'Running'")
        if self.id_prefix is not None:
            parts.append(f"WorkflowId STARTS_WITH '{self.id_prefix}'")
        if self.created_after is not None:
            parts.append(f"StartTime > '{_utc(self.created_after)}'")
        if self.created_before is not None:
            parts.append(f"StartTime < '{_utc(self.created_before)}'")
        return " AND ".join(parts)

    def _of_session(self, session_id: str) -> str:
        its_own = f"{SESSION_ATTRIBUTE} = '{session_id}'"
        if not self.with_called:
            return its_own
        return f"({its_own} OR RootWorkflowId = '{workflow_id(session_id)}')"


class RunSummary(Frozen):
    """One line of a list of Runs."""

    run_id: str
    status: RunStatus
    agent: str
    session_id: str | None = None
    created_at: datetime
    completed_at: datetime | None = None
    waiting_on: str | None = None
    """What kind of thing it waits for a person to do, where it does."""
    parent_run_id: str | None = None
    """The Run that has called it, where one has."""
    queue_position: int | None = None
    """Its place in the queue of its Session, where it waits for its turn."""
    total_tokens: int = 0
    """Written when a Run ends; 0 while it is open. `get_run` has the present number."""
    total_cost: float = 0.0


class RunList(Frozen):
    """A page of Runs, newest first."""

    runs: tuple[RunSummary, ...]
    next_cursor: str | None = None
    """Ask again with this; none on the last page."""


async def list_runs(
    client: Client, chosen: RunFilter, limit: PositiveInt, cursor: str | None
) -> RunList:
    """Return one page of the Runs that `chosen` describes.

    Raises:
        InvalidRequest: When the cursor is not one of ours.
    """
    executions, following = await page(client, chosen.query(), limit, cursor)
    current = await asyncio.gather(*[_is_current(client, each) for each in executions])
    found = [
        await _summary(execution)
        for execution, kept in zip(executions, current, strict=True)
        if kept
    ]
    return RunList(runs=await _placed(client, found), next_cursor=following)


async def page(
    client: Client, query: str, limit: PositiveInt, cursor: str | None
) -> tuple[list[WorkflowExecution], str | None]:
    """Return one page of workflows, newest first, and the cursor of the next one.

    Raises:
        InvalidRequest: When the cursor is not one of ours, or Temporal refuses the query.
        EngineUnavailable: When Temporal does not answer.
    """
    token = _token_of(cursor) if cursor else None
    pages = client.list_workflows(query, page_size=limit, next_page_token=token)
    try:
        await pages.fetch_next_page()
    except RPCError as exc:
        if exc.status is RPCStatusCode.INVALID_ARGUMENT:
            raise InvalidRequest(f"Temporal refused the query: {exc.message}") from exc
        raise follow.translated(exc, None) from exc
    following = pages.next_page_token
    return list(pages.current_page or ()), _cursor_of(following) if following else None


def _cursor_of(token: bytes) -> str:
    return base64.urlsafe_b64encode(_mark(token) + token).decode()


def _token_of(cursor: str) -> bytes:
    try:
        given = base64.b64decode(cursor, altchars=b"-_", validate=True)
    except ValueError:
        given = b""
    token = given[MARK_BYTES:]
    if not token or given != _mark(token) + token:
        raise InvalidRequest(
            f"{cursor[:80]!r} is not a cursor of a list.", hint="Take the page's next_cursor."
        )
    return token


def _mark(token: bytes) -> bytes:
    """Return by what a token is known: Temporal only says of others that something went wrong."""
    return hashlib.sha256(token).digest()[:MARK_BYTES]


async def open_runs(client: Client, session_id: str) -> list[str]:
    """Return the Runs of a Session that have not ended: those that have begun, then the oldest.

    How each stands is asked of Temporal itself: its list of workflows is a moment behind. None,
    where there is no such list.
    """
    query = RunFilter(session_id=session_id).query() + " AND ExecutionStatus = 'Running'"
    try:
        found = [execution async for execution in client.list_workflows(query)]
    except RPCError as exc:
        if exc.status is RPCStatusCode.UNIMPLEMENTED:
            return []
        raise
    running: list[str] = []
    waiting: list[str] = []
    for execution in sorted(found, key=lambda each: each.start_time):
        try:
            described = await client.get_workflow_handle(execution.id).describe()
        except RPCError as exc:
            if exc.status is RPCStatusCode.NOT_FOUND:
                continue
            raise
        if described.status is WorkflowExecutionStatus.RUNNING:
            waits = described.typed_search_attributes.get(STATUS) == RunStatus.PENDING
            (waiting if waits else running).append(execution.id)
    return [*running, *waiting]


async def _is_current(client: Client, execution: WorkflowExecution) -> bool:
    """Tell whether an execution is how its Run stands: one that ended may have been resumed."""
    if execution.status not in _RESUMABLE:
        return True
    try:
        described = await client.get_workflow_handle(execution.id).describe()
    except RPCError as exc:
        if exc.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.run_id == execution.run_id


async def _summary(execution: WorkflowExecution) -> RunSummary:
    attributes = execution.typed_search_attributes
    written = RunStatus(attributes.get(STATUS) or RunStatus.PENDING)
    created = await execution.memo_value(CREATED_MEMO, None)
    closed = _CLOSED.get(execution.status) if execution.status else None
    parent = execution.parent_id or workflow_id("")
    return RunSummary(
        run_id=execution.id,
        status=closed or written,
        agent=attributes.get(AGENT) or "",
        session_id=attributes.get(SESSION),
        waiting_on=(attributes.get(WAITING) or None) if closed is None else None,
        parent_run_id=None if parent.startswith(workflow_id("")) else parent,
        created_at=datetime.fromisoformat(created) if created else execution.start_time,
        completed_at=execution.close_time,
        total_tokens=attributes.get(TOKENS) or 0,
        total_cost=attributes.get(COST) or 0.0,
    )


async def _placed(client: Client, found: list[RunSummary]) -> tuple[RunSummary, ...]:
    """Return the Runs with their places in the queues of their Sessions."""
    asked = {
        each.session_id
        for each in found
        if each.status is RunStatus.PENDING and each.session_id is not None
    }
    queues = await asyncio.gather(*[follow.queue_of(client, each) for each in asked])
    places = {run_id: place for queue in queues for place, run_id in enumerate(queue, 1)}
    return tuple(
        each.model_copy(update={"queue_position": places.get(each.run_id)}) for each in found
    )


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
