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
        self.tasks: set[asyncio.Task[object]] = set()

    async def adopt(self) -> None:
        """Take over Runs that are left of an earlier Session of this name, which is gone."""
        left = await steps.open_runs(self.state.session_id)
        self.state = self.state.adopting(left, workflow.now())
        for run_id in left:
            self.watch(run_id, None)

    async def begin(self, run_id: str) -> None:
        """Let the Run begin whose turn it is."""
        late = next((e.start for e in self.state.queue if e.run_id == run_id), None)
        self.state = self.state.begun(run_id, workflow.now())
        if late is None:
            await self.signal(run_id, runs.BEGIN_SIGNAL, BeginRequest(share=self.state.share))
            return
        start = late.model_copy(update={"share": self.state.share})
        try:
            await self.launch(run_id, RunRequest(start=start))
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

    def watch(self, run_id: str, handle: Child | None) -> None:
        """See to it that the Run's end is noticed, however it ends."""
        self.in_background(self.until_ended(run_id, handle))

    async def until_ended(self, run_id: str, handle: Child | None) -> None:
        """Wait for a Run's end, and keep what it leaves."""
        if handle is not None:
            with contextlib.suppress(ChildWorkflowError):
                await handle
        outcome = await steps.run_outcome(run_id)
        self.state = self.state.ended(outcome, workflow.now())

    async def signal(self, run_id: str, name: str, request: object) -> bool:
        """Tell a Run something, and return whether it was told; one that has ended is not."""
        await workflow.wait_condition(lambda: run_id not in self.starting)
        try:
            await workflow.get_external_workflow_handle(run_id).signal(name, request)
        except ApplicationError:
            return False
        return True

    def in_background(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something without waiting for it; an event loop forgets tasks that nobody holds."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def make_room(self, request: StartRequest, admission: Admission) -> None:
        """Have the Runs stop whose place another one takes."""
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
        said = MessageRequest(text=request.start.input, message_id=request.run_id)
        if await self.signal(admission.run_id, runs.MESSAGE_SIGNAL, said):
            return StartedRun(run_id=admission.run_id, how="steered")
        await workflow.wait_condition(lambda: not self.is_to_begin(request.run_id))
        if request.run_id in self.late:
            return StartedRun(run_id=request.run_id, how="begun")
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
