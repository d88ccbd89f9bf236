"""How a Session deals with its Runs: starts them, tells them, and notices their ends."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from perdure.runs import contract as runs
from perdure.runs import record
from perdure.runs.contract import (
    BeginRequest,
    CancelRequest,
    MessageRequest,
    RunRequest,
    RunResult,
)
from perdure.runs.errors import ErrorCode
from perdure.runs.events import CancelMode
from perdure.runs.run import Run
from perdure.sessions.admission import Admission, StartRequest
from perdure.sessions.contract import StartedRun
from perdure.sessions.session import Session
from perdure.workflows import steps
from perdure.workflows.run import RunWorkflow
from perdure.workflows.starting import start_options
from perdure.workflows.waiting import until
from temporalio import workflow
from temporalio.exceptions import ApplicationError, ChildWorkflowError, WorkflowAlreadyStartedError

Child = workflow.ChildWorkflowHandle[RunWorkflow, RunResult]


class SessionRuns:
    """The Runs of one Session: child workflows that live on without it.

    Args:
        state: The Session.
    """

    def __init__(self, state: Session) -> None:
        self.state = state
        self.starting: set[str] = set()
        self.late: set[str] = set()
        """Runs that began with what was said too late to another."""
        self.stopped: set[str] = set()
        """Runs that were told that their Session is deleted."""
        self.sending = 0
        """Signals that Temporal has not yet taken."""
        self.tasks: set[asyncio.Task[object]] = set()
        self.fault: BaseException | None = None
        """What went wrong with no one waiting for it."""

    def check(self) -> None:
        """Fail the workflow task, not the Session, when something went wrong meanwhile."""
        if self.fault is not None:
            raise RuntimeError("The Session waits for better code.") from self.fault

    def begin(self, run_id: str) -> None:
        """Let the Run begin whose turn it is."""
        late = next((each.start for each in self.state.queue if each.run_id == run_id), None)
        self.state = self.state.begun(run_id, workflow.now())
        share = self.state.share
        if late is None:
            turn = BeginRequest(share=share)
            self.in_background(self.signal(run_id, runs.BEGIN_SIGNAL, turn))
        else:
            start = late.model_copy(update={"share": share})
            self.starting.add(run_id)
            self.in_background(self.begin_late(run_id, RunRequest(start=start)))

    async def begin_late(self, run_id: str, request: RunRequest) -> None:
        """Start a Run with what was said too late to another."""
        try:
            await self.launch(run_id, request)
            self.late.add(run_id)
        except WorkflowAlreadyStartedError:
            self.state = self.state.unknown(run_id)

    async def launch(self, run_id: str, request: RunRequest) -> None:
        """Start the workflow of a Run, and watch for its end.

        Raises:
            WorkflowAlreadyStartedError: When a Run of that id was started before.
        """
        self.starting.add(run_id)
        try:
            handle = await workflow.start_child_workflow(
                RunWorkflow.run,
                request,
                id=run_id,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                **start_options(_first_moment(run_id, request), request.resumption),
            )
        finally:
            self.starting.discard(run_id)
        self.watch(run_id, handle)

    async def until_started(self, run_id: str) -> None:
        """Wait until Temporal has said whether a Run was started."""
        await until(lambda: run_id not in self.starting)

    def watch(self, run_id: str, handle: Child | None) -> None:
        """See to it that the Run's end is noticed, however it ends."""
        self.in_background(self.until_ended(run_id, handle))

    async def until_ended(self, run_id: str, handle: Child | None) -> None:
        """Wait for a Run's end, and keep what it leaves."""
        if handle is not None:
            with contextlib.suppress(ChildWorkflowError):
                await handle
        outcome = await steps.run_outcome(run_id, has_ended=handle is not None)
        self.state = self.state.ended(outcome, workflow.now())

    async def signal(self, run_id: str, name: str, request: object) -> bool:
        """Tell a Run something, and return whether it was told; one that has ended is not."""
        self.sending += 1
        try:
            if run_id in self.starting:
                await self.until_started(run_id)
            await workflow.get_external_workflow_handle(run_id).signal(name, request)
        except ApplicationError:
            return False
        finally:
            self.sending -= 1
        return True

    def in_background(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something without waiting for it; an event loop forgets tasks that nobody holds."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.forget)

    def forget(self, task: "asyncio.Task[object]") -> None:
        """Let go of a task that is done; keep why it failed."""
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.fault = task.exception()

    def stop_all(self) -> None:
        """Cancel the Runs there are, each once."""
        request = CancelRequest(reason="Its Session is deleted.", by="session")
        for run_id in self.state.open_runs:
            if run_id not in self.stopped:
                self.stopped.add(run_id)
                self.in_background(self.signal(run_id, runs.CANCEL_SIGNAL, request))

    async def accept(self, request: StartRequest, admission: Admission) -> None:
        """Start the Run that was admitted, then have those stop whose place it takes."""
        given = {"queued": True} if admission.how == "queued" else {"share": self.state.share}
        start = request.start.model_copy(update=given)
        await self.started(request.run_id, RunRequest(start=start))
        mode: CancelMode = "rollback" if request.on_busy == "rollback" else "now"
        reason = f"Run {request.run_id!r} takes its place."
        stop = CancelRequest(reason=reason, mode=mode, by="session")
        for run_id in filter(None, (admission.stop, *admission.superseded)):
            await self.signal(run_id, runs.CANCEL_SIGNAL, stop)

    async def started(self, run_id: str, request: RunRequest) -> None:
        """Start a Run that was asked for; an id that was used before is refused."""
        try:
            await self.launch(run_id, request)
        except WorkflowAlreadyStartedError as exc:
            self.state = self.state.unknown(run_id)
            why = f"A Run {run_id!r} was started before."
            raise ApplicationError(why, type=ErrorCode.RUN_ALREADY_EXISTS) from exc

    async def steer(self, request: StartRequest, admission: Admission) -> StartedRun:
        """Say the input to the active Run; if that has ended, a Run of its own begins."""
        start = request.start
        said = MessageRequest(text=start.input, message_id=request.run_id, files=start.files)
        if await self.signal(admission.run_id, runs.MESSAGE_SIGNAL, said):
            return StartedRun(run_id=admission.run_id, how="steered")
        await until(lambda: not self.is_to_begin(request.run_id))
        if request.run_id in self.late:
            return StartedRun(run_id=request.run_id, how="begun")
        if self.state.closing:
            why = f"Session {self.state.session_id!r} is being deleted."
            raise ApplicationError(why, type=ErrorCode.SESSION_NOT_FOUND)
        # It is said at the beginning of a Run that took the other one's place.
        return StartedRun(run_id=self.state.busy_with or admission.run_id, how="steered")

    def is_to_begin(self, run_id: str) -> bool:
        """Tell whether it is still open what becomes of something that was said too late."""
        active = self.state.active
        said = active is not None and any(each.run_id == run_id for each in active.steering)
        waits = any(each.run_id == run_id for each in self.state.queue)
        return said or waits or run_id in self.starting


def _first_moment(run_id: str, request: RunRequest) -> Run:
    if request.carried is not None and request.resumption is not None:
        resumed = record.resumed(request.carried, workflow.now(), request.resumption)
        return request.carried.apply(resumed)
    if request.start is None:
        raise ApplicationError("A Run needs a start.", type=ErrorCode.INTERNAL)
    return Run.begin(record.queued(run_id, request.start, workflow.now()))
