"""`SessionHandle`: one conversation, its Runs and what it keeps; and finding Sessions."""

from datetime import datetime
from functools import partial
from typing import Any, Unpack

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from perdure.client import asking, deleting, follow, reports
from perdure.client.asking import answered
from perdure.client.deleting import Deleted
from perdure.client.launch import RunOptions, asked_for, start
from perdure.client.listing import RunFilter, RunList, list_runs, page
from perdure.client.starting import checked_id, checked_seconds, checked_variables
from perdure.client.workers import require_worker
from perdure.runs.contract import TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import InvalidRequest
from perdure.runs.frozen import Frozen
from perdure.runs.messages import Message
from perdure.sessions import contract
from perdure.sessions.contract import (
    ConfigureRequest,
    SessionReport,
    SessionRequest,
    StartedRun,
)
from perdure.sessions.outcome import said_by_end
from perdure.sessions.parts import SessionSettings
from perdure.workflows.session import SessionWorkflow
from perdure.workflows.visible import SESSION


class SessionSummary(Frozen):
    """One line of a list of Sessions."""

    session_id: str
    is_open: bool
    created_at: datetime
    last_active_at: datetime
    active_run_id: str | None = None
    queued: int = 0
    runs: int = 0
    total_tokens: int = 0
    total_cost: float = 0.0


class SessionList(Frozen):
    """A page of Sessions, newest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None
    """Ask again with this; none on the last page."""


class SessionHandle:
    """A Session, by its id; nothing is asked of Temporal until a method is called.

    Args:
        client: Connected with our data converter.
        task_queue: Where workers take Runs from.
        session_id: Which Session; it begins with its first Run.

    Raises:
        InvalidRequest: When the id can't name anything.
    """

    def __init__(self, client: Client, task_queue: str, session_id: str) -> None:
        self.client = client
        self.task_queue = task_queue
        self.session_id = checked_id("session", session_id)
        self._handle = client.get_workflow_handle_for(
            SessionWorkflow.run, contract.workflow_id(session_id)
        )

    async def start_run(self, agent: str, input: str, **options: Unpack[RunOptions]) -> StartedRun:
        """Start a Run in this Session, and return its id and what became of it.

        Args:
            agent: Name of an agent that the workers have.
            input: What the user says.
            **options: As `RunManager.start_run` has them.

        Raises:
            PerdureError: As `RunManager.start_run`.
        """
        asked = asked_for(agent, input, self.session_id, **options)
        return await start(self.client, self.task_queue, asked)

    async def get(self) -> SessionReport:
        """Return where the Session stands; no worker is asked, so its variables are not told.

        It is waited for a moment, should it have to notice yet that its Run has ended.

        Raises:
            SessionNotFound: When there is no such Session.
            EngineUnavailable: When Temporal does not answer.
        """
        return await reports.report(self.client, self.session_id)

    async def report(self) -> SessionReport:
        """Return where the Session stands, as it says itself, with its variables.

        Raises:
            SessionNotFound: When there is no such Session.
            NoWorker: When nothing answers.
        """
        ask = partial(self._handle.query, SessionWorkflow.report)
        told: SessionReport = await answered(self.session_id, ask)
        return told

    async def variables(self) -> dict[str, Any]:
        """Return the variables that every Run of the Session gets.

        Raises:
            SessionNotFound: When there is no such Session.
            NoWorker: When nothing answers.
        """
        return (await self.report()).variables

    async def messages(self) -> list[Message]:
        """Return the conversation so far: what the next Run begins with.

        Raises:
            SessionNotFound: When there is no such Session.
            NoWorker: When nothing answers.
        """
        await reports.report(self.client, self.session_id, reports.CATCH_UP_S)
        found: list[Message] = []
        start: int | None = 0
        while start is not None:
            request = TranscriptPageRequest(start=start)
            ask = partial(self._handle.query, SessionWorkflow.conversation, request)
            told: TranscriptPage = await answered(self.session_id, ask)
            found += told.messages
            start = told.next_start
        return found

    async def runs(self, *, limit: int = 20, cursor: str | None = None) -> RunList:
        """Return a page of the Session's Runs, newest first.

        Raises:
            InvalidRequest: When the cursor is not one of ours.
            EngineUnavailable: When Temporal does not answer.
        """
        return await list_runs(self.client, RunFilter(session_id=self.session_id), limit, cursor)

    async def configure(
        self,
        settings: SessionSettings | None = None,
        *,
        variables: dict[str, Any] | None = None,
    ) -> SessionReport:
        """Change settings and variables, of a Session that begins with this if there is none.

        Args:
            settings: Those to change.
            variables: All of them: these replace the ones before.

        Raises:
            InvalidRequest: When the variables are too large or no JSON, or a time is too long.
            NoWorker: When nothing answers.
            EngineUnavailable: When Temporal does not answer.
        """
        request = ConfigureRequest(
            settings=checked_seconds(settings or SessionSettings()),
            variables=None if variables is None else checked_variables(variables),
        )
        await require_worker(self.client, self.task_queue)
        return await asking.configure(self.client, self.task_queue, self.session_id, request)

    async def clear(self) -> SessionReport:
        """Forget what was said; the Session's totals, settings and variables stay.

        Raises:
            SessionNotFound: When there is no such Session.
            SessionBusy: When a Run is going on, or waits.
            NoWorker: When nothing answers.
        """
        clear = partial(self._handle.execute_update, SessionWorkflow.on_clear)
        return await asking.caught_up(self.client, lambda: answered(self.session_id, clear))

    async def fork(self, new_session_id: str, *, run_id: str | None = None) -> "SessionHandle":
        """Begin another Session with the conversation of this one; this one stays as it is.

        Settings and variables are as they are now here; what it uses is counted anew.

        Args:
            new_session_id: Its id.
            run_id: The Run after which it begins; the conversation as it is now when not given.

        Raises:
            RunNotFound: When there is no such Run in this Session.
            InvalidRequest: When the Run has not ended, or the new id is taken.
            SessionNotFound: When there is no such Session.
        """
        forked = SessionHandle(self.client, self.task_queue, new_session_id)
        request = SessionRequest(
            session_id=new_session_id,
            messages=tuple(await self._said(run_id)),
            variables=await self.variables(),
            settings=(await self.get()).settings,
            forked_from=self.session_id,
        )
        await require_worker(self.client, self.task_queue)
        await asking.create(self.client, self.task_queue, request)
        return forked

    async def _said(self, run_id: str | None) -> list[Message]:
        if run_id is None:
            return await self.messages()
        run = await follow.latest(self.client, run_id)
        if run.session_id != self.session_id or not run.is_terminal:
            raise InvalidRequest(
                f"Run {run_id!r} is not one of Session {self.session_id!r} that has ended.",
                hint=f"`perdure sessions runs {self.session_id}` shows them.",
            )
        return said_by_end(run)

    async def delete(self) -> Deleted:
        """Cancel what goes on, and delete the Session and its Runs from Temporal.

        What Temporal does not hold stays: large payloads in the external storage, until the
        storage's own rules delete them (docs/data.md), and Temporal's own archive and backups.
        It takes Temporal up to half a minute to delete. Asking again deletes what was left.

        Raises:
            SessionNotFound: When nothing is left of it.
            NoWorker: When nothing ends the Runs.
            EngineUnavailable: When Temporal does not answer.
        """
        return await deleting.delete(self.client, self.session_id)


async def list_sessions(
    client: Client, limit: int, cursor: str | None, id_prefix: str = ""
) -> SessionList:
    """Return a page of Sessions, newest first.

    Args:
        client: Connected.
        limit: Sessions in the page.
        cursor: Where to go on.
        id_prefix: Only those whose ids begin so; a name.

    Raises:
        InvalidRequest: When the cursor is not one of ours.
        EngineUnavailable: When Temporal does not answer.
    """
    query = f"WorkflowType = '{contract.SESSION_WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
    if id_prefix:
        begins = contract.workflow_id(checked_id("Session", id_prefix))
        query += f" AND WorkflowId STARTS_WITH '{begins}'"
    executions, following = await page(client, query, limit, cursor)
    found = [await _summary(execution) for execution in executions]
    return SessionList(sessions=tuple(found), next_cursor=following)


async def _summary(execution: WorkflowExecution) -> SessionSummary:
    told = await execution.memo_value(contract.REPORT_MEMO, None)
    is_open = execution.status is WorkflowExecutionStatus.RUNNING
    if told is None:
        return SessionSummary(
            session_id=execution.typed_search_attributes.get(SESSION) or execution.id,
            is_open=is_open,
            created_at=execution.start_time,
            last_active_at=execution.start_time,
        )
    report = SessionReport.model_validate(told)
    return SessionSummary(
        session_id=report.session_id,
        is_open=is_open,
        created_at=report.created_at,
        last_active_at=report.last_active_at,
        active_run_id=report.active_run_id if is_open else None,
        queued=len(report.queue) if is_open else 0,
        runs=report.runs,
        total_tokens=report.usage.total_tokens,
        total_cost=report.usage.cost,
    )
