"""Runs of other agents, which are Steps of this one: child workflows."""

from perdure.runs import record
from perdure.runs.contract import RUN_WORKFLOW, RunRequest, RunResult
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.ids import child_run_id
from perdure.runs.results import child_reply, failed_child_reply, not_started
from perdure.runs.run import Run
from perdure.runs.steps import ToolReply
from perdure.runs.usage import Usage
from perdure.workflows import steps
from perdure.workflows.failures import child_failure
from perdure.workflows.starting import start_options
from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError, FailureError, WorkflowAlreadyStartedError


class Child:
    """The Run of another agent, while it is a Step in flight.

    Args:
        parent_id: The Run that calls it.
        step: The Step that it is.
        request: Its input.
    """

    def __init__(self, parent_id: str, step: int, request: RunRequest) -> None:
        self.run_id = child_run_id(parent_id, step)
        self._step = step
        self._request = request
        self._handle: workflow.ChildWorkflowHandle[object, RunResult] | None = None
        self._is_cancelled = False

    def done(self) -> bool:
        """Tell whether it has ended."""
        return self._handle is not None and self._handle.done()

    def cancel(self) -> None:
        """Cancel the Run, once Temporal has started it."""
        self._is_cancelled = True
        if self._handle is not None:
            self._handle.cancel("The Run that called it is being stopped.")

    async def ended(self) -> ToolReply | RunError:
        """Start the Run, and return what it came to; the start is asked for at once."""
        start = self._request.start
        if start is None:
            return error(ErrorCode.INTERNAL, "A Run needs a start.")
        first = Run.begin(record.queued(self.run_id, start, workflow.now()))
        try:
            self._handle = await workflow.start_child_workflow(
                RUN_WORKFLOW,
                self._request,
                id=self.run_id,
                result_type=RunResult,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                **start_options(first),
            )
        except WorkflowAlreadyStartedError:
            return not_started(self.run_id)
        if self._is_cancelled:
            self.cancel()
        try:
            return child_reply(self.run_id, await self._handle)
        except ChildWorkflowError as exc:
            why, usage = child_failure(exc.cause)
            return failed_child_reply(self.run_id, why, usage or await self._used())

    async def _used(self) -> Usage:
        """Return what a Run used that could not say so itself: it was cancelled or terminated."""
        try:
            return await steps.run_usage(self.run_id, self._step)
        except FailureError:
            return Usage(complete=False)
