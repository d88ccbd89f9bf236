"""From Temporal's history of a Run to its Events: the Steps, activities and Runs of agents."""

import json
from datetime import datetime
from typing import TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter
from temporalio.exceptions import CancelledError, TerminatedError, TimeoutError

from perdure.runs import contract, record
from perdure.runs.contract import ModelRequest, RunRequest, RunResult, ToolRequest
from perdure.runs.decide import CallModel
from perdure.runs.errors import ErrorCode, IllegalEvent, RunError, error
from perdure.runs.events import Event
from perdure.runs.ids import step_of
from perdure.runs.policy import ToolPolicy
from perdure.runs.results import child_reply, failed_child_reply, not_started
from perdure.runs.run import Run
from perdure.runs.steps import ModelReply, Reply, ToolReply
from perdure.runs.usage import Usage
from perdure.workflows.failures import child_failure, step_error

T = TypeVar("T")


class StepReader:
    """Reads what a history says of Steps.

    Args:
        run_id: The Run's id.
        converter: The data converter that the Run was started with.
        run: Where to start from, when earlier executions are not read.
    """

    def __init__(self, run_id: str, converter: DataConverter, run: Run | None = None) -> None:
        self.run = run
        self._run_id = run_id
        self._converter = converter
        self._step_of_schedule: dict[int, int] = {}
        self._unknown_usage: dict[int, RunError] = {}
        """Why Runs of other agents ended, of which it is yet to be read what they used."""
        self._is_ending = False

    async def activity_scheduled(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Step was handed to the workers."""
        attributes = event.activity_task_scheduled_event_attributes
        self._step_of_schedule[event.event_id] = step_of(attributes.activity_id)
        if attributes.activity_type.name == contract.CALL_MODEL:
            asked = await self._decoded(attributes.input, ModelRequest)
            call = CallModel(asked.turn, asked.purpose, model=asked.model, limit=asked.limit)
            return record.model_step_started(self._open, at, call)
        request = await self._decoded(attributes.input, ToolRequest)
        return record.tool_step_started(self._open, at, request.name, request.call_id)

    async def activity_completed(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Step brought a reply."""
        attributes = event.activity_task_completed_event_attributes
        step = self._step_of_schedule[attributes.scheduled_event_id]
        reply: Reply
        if self._open.steps[step - 1].kind == "model":
            reply = await self._decoded(attributes.result, ModelReply)
        else:
            reply = await self._decoded(attributes.result, ToolReply)
        return record.step_ended(self._open, at, step, reply)

    async def activity_failed(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Step brought none."""
        attributes = event.activity_task_failed_event_attributes
        return await self._step_failed(attributes.scheduled_event_id, attributes.failure, at)

    async def activity_timed_out(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Step took too long, or its worker died."""
        attributes = event.activity_task_timed_out_event_attributes
        return await self._step_failed(attributes.scheduled_event_id, attributes.failure, at)

    async def activity_canceled(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Step was cancelled before it began."""
        scheduled = event.activity_task_canceled_event_attributes.scheduled_event_id
        step = self._step_of_schedule[scheduled]
        return record.step_ended(self._open, at, step, error(ErrorCode.CANCELLED))

    async def child_initiated(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a Run of another agent was started."""
        attributes = event.start_child_workflow_execution_initiated_event_attributes
        request = await self._decoded(attributes.input, RunRequest)
        call_id = request.start.parent_call_id if request.start is not None else None
        call = next(c for c in reversed(self._open.tool_calls) if c.call_id == call_id)
        self._step_of_schedule[event.event_id] = len(self._open.steps) + 1
        child_id = attributes.workflow_id
        return record.tool_step_started(self._open, at, call.name, call.call_id, child_id)

    async def child_not_started(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it could not be."""
        attributes = event.start_child_workflow_execution_failed_event_attributes
        step = self._step_of_schedule[attributes.initiated_event_id]
        return record.step_ended(self._open, at, step, not_started(attributes.workflow_id))

    async def child_completed(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it completed."""
        attributes = event.child_workflow_execution_completed_event_attributes
        step = self._step_of_schedule[attributes.initiated_event_id]
        result = await self._decoded(attributes.result, RunResult)
        reply = child_reply(attributes.workflow_execution.workflow_id, result)
        return record.step_ended(self._open, at, step, reply)

    async def child_failed(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it did not."""
        attributes = event.child_workflow_execution_failed_event_attributes
        cause = await self._converter.decode_failure(attributes.failure)
        return self._child_ended(attributes.initiated_event_id, at, cause)

    async def child_canceled(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it was cancelled."""
        attributes = event.child_workflow_execution_canceled_event_attributes
        return self._child_ended(attributes.initiated_event_id, at, CancelledError())

    async def child_terminated(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it was terminated."""
        attributes = event.child_workflow_execution_terminated_event_attributes
        return self._child_ended(attributes.initiated_event_id, at, TerminatedError(""))

    async def child_timed_out(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that it took too long."""
        attributes = event.child_workflow_execution_timed_out_event_attributes
        exc = TimeoutError("", type=None, last_heartbeat_details=[])
        return self._child_ended(attributes.initiated_event_id, at, exc)

    async def marked(self, event: HistoryEvent, at: datetime) -> Event | None:
        """Read that a local activity ended."""
        attributes = event.marker_recorded_event_attributes
        told = json.loads(attributes.details["data"].payloads[0].data)
        if told["activity_type"] == contract.REQUEST_CANCEL:
            # At its end, a Run asks for its own cancellation.
            self._is_ending = True
            return None
        usage = Usage(complete=False)
        if not attributes.HasField("failure"):
            usage = await self._decoded(attributes.details["result"], Usage)
        step = step_of(told["activity_id"])
        return self._child_reply(step, at, self._unknown_usage.pop(step), usage)

    def _child_ended(self, initiated: int, at: datetime, cause: BaseException) -> Event | None:
        step = self._step_of_schedule[initiated]
        why, usage = child_failure(cause)
        if usage is None:
            self._unknown_usage[step] = why
            return None
        return self._child_reply(step, at, why, usage)

    def _child_reply(self, step: int, at: datetime, why: RunError, usage: Usage) -> Event:
        child_id = self._open.steps[step - 1].child_run_id or ""
        return record.step_ended(self._open, at, step, failed_child_reply(child_id, why, usage))

    async def _step_failed(self, scheduled: int, failure: Failure, at: datetime) -> Event:
        step = self._step_of_schedule[scheduled]
        exc = await self._converter.decode_failure(failure)
        return record.step_ended(self._open, at, step, step_error(exc, self._policy_of(step)))

    def _policy_of(self, step: int) -> ToolPolicy | None:
        call_id = self._open.steps[step - 1].call_id
        if call_id is None:
            return None
        return next(c.policy for c in reversed(self._open.tool_calls) if c.call_id == call_id)

    async def _decoded(self, payloads: Payloads, kind: type[T]) -> T:
        values: list[T] = await self._converter.decode(payloads.payloads, [kind])
        return values[0]

    @property
    def _open(self) -> Run:
        if self.run is None:
            raise IllegalEvent(f"The history of {self._run_id!r} does not begin with its start.")
        return self.run
