"""The workflow of a Session: it lets Runs begin one after the other, and keeps what was said.

No rule stands here: `sessions/` decides; `session_runs` has the dealings with the Runs.
Unlike a Run it is never failed by a programming error: a conversation that waits for better
code is worth more than one that is gone.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from perdure.runs.contract import TranscriptPage, TranscriptPageRequest
from perdure.runs.errors import ErrorCode, PerdureError
from perdure.runs.pages import page_of
from perdure.sessions import contract
from perdure.sessions.admission import Admission, StartRequest, admit
from perdure.sessions.contract import (
    ConfigureRequest,
    ResumeRequest,
    SessionReport,
    SessionRequest,
    SessionResult,
    StartedRun,
)
from perdure.sessions.session import Session
from perdure.workflows import steps
from perdure.workflows.session_runs import SessionRuns
from perdure.workflows.waiting import until
from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError

T = TypeVar("T")


@workflow.defn(name=contract.SESSION_WORKFLOW)
class SessionWorkflow(SessionRuns):
    """One Session, until it has been idle for long, or is deleted."""

    @workflow.init
    def __init__(self, request: SessionRequest) -> None:
        super().__init__(request.carried or self.begun(request))
        self.is_ready = request.carried is not None
        """Whether it is known which Runs are going on."""
        self.told: SessionReport | None = None

    def begun(self, request: SessionRequest) -> Session:
        """Return the Session at its first moment."""
        now = workflow.info().start_time
        return Session(
            session_id=request.session_id,
            created_at=now,
            last_active_at=now,
            settings=request.settings,
            messages=request.messages,
            variables=request.variables,
            forked_from=request.forked_from,
        )

    @workflow.run
    async def run(self, request: SessionRequest) -> SessionResult:
        """Give the Runs their turns, until there is nothing more to come."""
        if request.carried is None:
            self.in_background(self.adopt())
        for run_id in self.state.open_runs:
            self.watch(run_id, None)
        try:
            return await self.until_over()
        except asyncio.CancelledError:
            # By whoever pressed Cancel in Temporal's UI; nothing of ours was waited for there.
            self.close()
            return await self.until_over()

    async def adopt(self) -> None:
        """Take over Runs that are left of an earlier Session of this name, which is gone."""
        found = await steps.open_runs(self.state.session_id)
        self.state = self.state.adopting(found, workflow.now())
        for run_id in found:
            self.watch(run_id, None)
        self.is_ready = True

    async def until_over(self) -> SessionResult:
        """Let Runs begin as their turns come; return when the Session is deleted or expired."""
        while True:
            self.check()
            self.tell()
            if self.may_continue_as_new:
                self.continue_as_new()
            if self.state.closing:
                self.stop_all()
            if self.is_over:
                await workflow.wait_condition(workflow.all_handlers_finished)
                return self.result("deleted")
            run_id = self.next_turn()
            if run_id is not None:
                self.begin(run_id)
            elif not await self.something_new():
                return self.result("expired")

    @property
    def is_over(self) -> bool:
        """True when the Session is being deleted, and nothing is left to wait for."""
        return self.is_ready and self.state.closing and not self.state.open_runs

    @property
    def may_continue_as_new(self) -> bool:
        """True when the history is long, and nothing would get lost on the way.

        A handler is not waited for: it may itself wait for the turn of a Run.
        """
        if not workflow.info().is_continue_as_new_suggested():
            return False
        return self.is_ready and not self.sending and workflow.all_handlers_finished()

    def next_turn(self) -> str | None:
        """Return the Run whose turn it is, if any may begin."""
        if self.state.active is not None or self.state.closing or not self.state.turns:
            return None
        first = self.state.turns[0]
        return None if first in self.starting else first

    async def something_new(self) -> bool:
        """Wait for it; tell whether it came before the Session expired."""
        before = self.state

        def is_new() -> bool:
            return (
                self.state is not before
                or self.fault is not None
                or self.may_continue_as_new
                or self.next_turn() is not None
            )

        patience = None
        if before.busy_with is None and self.is_ready and not self.starting:
            patience = max(before.expires_at - workflow.now(), timedelta(0))
        try:
            await workflow.wait_condition(is_new, timeout=patience, timeout_summary="idle")
        except TimeoutError:
            # What came in the last moment has kept it alive.
            await workflow.wait_condition(workflow.all_handlers_finished)
        return is_new()

    def result(self, why: str) -> SessionResult:
        """Return how the Session ended."""
        return SessionResult(why=why, runs=self.state.runs, usage=self.state.usage)

    def continue_as_new(self) -> NoReturn:
        """Go on with a fresh history; Runs that are open are watched from there."""
        # What was written to the memo since the start is not carried along by itself.
        workflow.continue_as_new(
            SessionRequest(session_id=self.state.session_id, carried=self.state),
            memo=_memo(contract.report(self.state)),
        )

    def close(self) -> None:
        """Take no more Runs, and have those stop that there are."""
        self.state = self.state.closed()

    def tell(self) -> None:
        """Let everybody see where the Session stands, worker or none."""
        now = contract.report(self.state)
        if self.is_ready and now != self.told:
            self.told = now
            workflow.upsert_memo(_memo(now))

    # What clients ask for

    @workflow.update(name=contract.START_RUN_UPDATE)
    async def on_start_run(self, request: StartRequest) -> StartedRun:
        """Start a Run, or let it wait, or say its input to the active one; once for each key."""
        if not self.is_ready:
            await until(lambda: self.is_ready)
        admission = self.admitted(request)
        while admission.how == "replayed" and admission.run_id in self.starting:
            # Whoever asked first may be refused yet: an id that was used before.
            await self.until_started(admission.run_id)
            admission = self.admitted(request)
        match admission.how:
            case "begun" | "queued":
                await self.accept(request, admission)
            case "steered":
                return await self.steer(request, admission)
        return StartedRun(run_id=admission.run_id, how=admission.how)

    def admitted(self, request: StartRequest) -> Admission:
        """Let a request into the Session, and return what becomes of it."""
        self.state, admission = _told(lambda: admit(self.state, request, workflow.now()))
        return admission

    @on_start_run.validator
    def check_start_run(self, request: StartRequest) -> None:
        """Refuse what will not be started: that leaves nothing in the history."""
        if self.is_ready:
            _told(lambda: admit(self.state, request, workflow.now()))

    @workflow.update(name=contract.RESUME_RUN_UPDATE)
    async def on_resume_run(self, request: ResumeRequest) -> None:
        """Let the latest Run go on, which did not complete."""
        run, resumption = request.request.carried, request.request.resumption
        if run is None or resumption is None:
            raise ApplicationError("Nothing to resume.", type=ErrorCode.INTERNAL)
        self.state = _told(lambda: self.state.resuming(run, workflow.now()))
        share = resumption.model_copy(update={"budget": self.state.budget})
        again = request.request.model_copy(update={"resumption": share})
        await self.started(run.run_id, again)

    @workflow.update(name=contract.CONFIGURE_UPDATE)
    def on_configure(self, request: ConfigureRequest) -> SessionReport:
        """Change settings and variables; Runs that are going on keep what they have."""
        changes: dict[str, Any] = {"settings": request.settings.over(self.state.settings)}
        if request.variables is not None:
            changes["variables"] = request.variables
        self.state = self.state.model_copy(update=changes)
        return self.report()

    @workflow.update(name=contract.CLEAR_UPDATE)
    def on_clear(self) -> SessionReport:
        """Forget what was said."""
        self.state = _told(self.state.cleared)
        return self.report()

    @on_clear.validator
    def check_clear(self) -> None:
        """Refuse it while a Run is going on."""
        _told(self.state.cleared)

    @workflow.update(name=contract.CLOSE_UPDATE)
    def on_close(self) -> None:
        """Cancel all Runs, and end when they have ended."""
        self.close()

    @workflow.query(name=contract.SESSION_QUERY)
    def report(self) -> SessionReport:
        """Tell where the Session stands, with its variables."""
        variables = {"variables": self.state.variables}
        return contract.report(self.state).model_copy(update=variables)

    @workflow.query(name=contract.CONVERSATION_QUERY)
    def conversation(self, request: TranscriptPageRequest) -> TranscriptPage:
        """Return messages of the conversation."""
        return page_of(self.state.messages[request.start :], request)


@workflow.defn(name=contract.SESSION_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class UpgradingSessionWorkflow(SessionWorkflow):
    """The same, for workers that have a version: it goes on with the current one.

    A Run stays on the version that it began on; a Session would keep that alive for months.
    Workers without a version may not say so, hence two.
    """

    @workflow.init
    def __init__(self, request: SessionRequest) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: SessionRequest) -> SessionResult:
        """Do what `SessionWorkflow` does."""
        return await super().run(request)


def _memo(report: SessionReport) -> dict[str, Any]:
    return {contract.REPORT_MEMO: report.model_dump(mode="json", exclude_defaults=True)}


def _told(ask: Callable[[], T]) -> T:
    """Return the answer, or raise the refusal in a form that reaches the client."""
    try:
        return ask()
    except PerdureError as exc:
        details = {"hint": exc.hint, "active_run_id": getattr(exc, "active_run_id", None)}
        raise ApplicationError(exc.message, details, type=exc.code) from exc
