"""From Temporal's history of a Run to its Events: the reader that needs no worker.

One history event in, no Event or one out, by the table `Projection.READERS`. What the
workflow records while it executes, `perdure.runs.record` makes here of the same facts, so a
projected Run equals the one that the workflow answers queries with (timestamps apart).
"""

import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from perdure.client.project_steps import StepReader
from perdure.runs import contract, record, resolving, steering
from perdure.runs.contract import (
    BeginRequest,
    CancelRequest,
    MessageRequest,
    PauseRequest,
    RaiseLimitsRequest,
    ResolveActionRequest,
    RunRequest,
)
from perdure.runs.decide import Finish, decide
from perdure.runs.errors import ErrorCode, IllegalEvent, RunError, error
from perdure.runs.events import Event
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, StopReason
from perdure.workflows.failures import application_error
from perdure.workflows.steps import ACTION_TIMER


class Projection(StepReader):
    """Folds the histories of one Run's executions, in order, into Events and the Run.

    Args:
        run_id: The Run's id.
        converter: The data converter that the Run was started with.
        run: Where to start from, when earlier executions are not read.
    """

    def __init__(self, run_id: str, converter: DataConverter, run: Run | None = None) -> None:
        super().__init__(run_id, converter, run)
        self._action_timers: set[int] = set()
        """Timers that end a wait for people: what follows is recorded apart."""
        self._was_stopping = False
        """Whether the workflow knew that it is to stop, when it took the latest signals."""
        self.next_execution: str | None = None
        """The execution that goes on with this Run, once it continued as new."""

    @property
    def is_over(self) -> bool:
        """True when the present execution has nothing more to tell."""
        ended = self.run is not None and self.run.status.is_terminal
        return ended or self.next_execution is not None

    async def feed(self, event: HistoryEvent) -> Event | None:
        """Take the next event of the history, and return what it means for the Run.

        Raises:
            IllegalEvent: When the history is not one of a Run of ours.
        """
        reader = self.READERS.get(event.event_type)
        if reader is None:
            return None
        happened = await reader(self, event, event.event_time.ToDatetime(UTC))
        if happened is None:
            return None
        self.run = Run.begin(happened) if self.run is None else self.run.apply(happened)
        return happened

    async def _execution_started(self, event: HistoryEvent, at: datetime) -> Event | None:
        attributes = event.workflow_execution_started_event_attributes
        # Activities are numbered anew in each execution's history.
        self._step_of_schedule.clear()
        self._is_ending = False
        self._was_stopping = False
        request = await self._decoded(attributes.input, RunRequest)
        if request.carried is not None:
            self.run = self.run or request.carried
            if request.resumption is None or not self.run.status.is_terminal:
                return None
            return record.resumed(self.run, at, request.resumption)
        if request.start is None:
            raise IllegalEvent(f"{self._run_id!r} is not a Run.")
        return record.queued(self._run_id, request.start, at)

    async def _task_started(self, event: HistoryEvent, at: datetime) -> Event | None:
        if self._open.status is not RunStatus.PENDING or self._open.waiting_on is not None:
            return None
        return record.started(self._open, at)

    async def _task_completed(self, event: HistoryEvent, at: datetime) -> Event | None:
        # Signals come first in a task, before a cancel or a timer that stands earlier.
        self._was_stopping = self._open.cancel is not None
        return None

    async def _signaled(self, event: HistoryEvent, at: datetime) -> Event | None:
        if self._is_ending:
            return None  # The workflow has recorded its end, and only waits for Temporal.
        attributes = event.workflow_execution_signaled_event_attributes
        try:
            match attributes.signal_name:
                case contract.CANCEL_SIGNAL:
                    stop = await self._decoded(attributes.input, CancelRequest)
                    self._was_stopping = True
                    return record.cancel_requested(self._open, at, stop.reason, stop.mode, stop.by)
                case contract.MESSAGE_SIGNAL if not self._was_stopping:
                    said = await self._decoded(attributes.input, MessageRequest)
                    return steering.message_accepted(self._open, at, said)
                case contract.BEGIN_SIGNAL if self._open.status is RunStatus.PENDING:
                    turn = await self._decoded(attributes.input, BeginRequest)
                    return record.started(self._open, at, turn.share)
        except ValidationError:
            pass  # The workflow drops what it can't read.
        return None

    async def _updated(self, event: HistoryEvent, at: datetime) -> Event | None:
        asked = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        match asked.name:
            case contract.RAISE_LIMITS_UPDATE:
                raised = await self._decoded(asked.args, RaiseLimitsRequest)
                return record.limits_raised(self._open, at, raised.limits)
            case contract.SEND_MESSAGE_UPDATE:
                said = await self._decoded(asked.args, MessageRequest)
                return steering.message_accepted(self._open, at, said)
            case contract.PAUSE_UPDATE:
                paused = await self._decoded(asked.args, PauseRequest)
                return steering.pause_requested(self._open, at, paused)
            case contract.RESOLVE_ACTION_UPDATE:
                decided = await self._decoded(asked.args, ResolveActionRequest)
                return resolving.action_resolved(self._open, at, decided)
            case contract.UNPAUSE_UPDATE:
                return steering.unpause_requested(self._open, at)
        return None

    async def _indexed(self, event: HistoryEvent, at: datetime) -> Event | None:
        attributes = event.upsert_workflow_search_attributes_event_attributes
        if contract.AGENT_ATTRIBUTE in attributes.search_attributes.indexed_fields:
            return record.handed_off(self._open, at)
        written = attributes.search_attributes.indexed_fields.get(contract.WAITING_ATTRIBUTE)
        if written is None:
            return None
        return record.waiting_changed(self._open, at, json.loads(written.data or b'""'))

    async def _cancel_requested(self, event: HistoryEvent, at: datetime) -> Event | None:
        if self._is_ending:
            return None
        cause = event.workflow_execution_cancel_requested_event_attributes.cause
        return record.cancel_requested(self._open, at, cause)

    async def _timer_started(self, event: HistoryEvent, at: datetime) -> Event | None:
        if event.user_metadata.HasField("summary"):
            said = await self._converter.decode([event.user_metadata.summary], [str])
            if said[0] == ACTION_TIMER:
                self._action_timers.add(event.event_id)
        return None

    async def _timer_fired(self, event: HistoryEvent, at: datetime) -> Event | None:
        # Besides those, a Run has one timer at a time: for its turn, then for its deadline.
        started = event.timer_fired_event_attributes.started_event_id
        if started in self._action_timers:
            return None
        if self._open.status is RunStatus.PENDING:
            return record.queue_expired(self._open, at)
        return record.deadline_passed(self._open, at)

    async def _continued(self, event: HistoryEvent, at: datetime) -> Event | None:
        attributes = event.workflow_execution_continued_as_new_event_attributes
        self.next_execution = attributes.new_execution_run_id
        return None

    async def _completed(self, event: HistoryEvent, at: datetime) -> Event | None:
        return self._ended(at, RunStatus.COMPLETED, None)

    async def _canceled(self, event: HistoryEvent, at: datetime) -> Event | None:
        return self._ended(at, RunStatus.CANCELLED, None)

    async def _failed(self, event: HistoryEvent, at: datetime) -> Event | None:
        failure = event.workflow_execution_failed_event_attributes.failure
        exc = await self._converter.decode_failure(failure)
        if isinstance(exc, ApplicationError):
            why = application_error(exc)
        else:
            why = error(ErrorCode.INTERNAL, str(exc))
        if why.code in (ErrorCode.RUN_TIMEOUT, ErrorCode.QUEUE_EXPIRED):
            return self._ended(at, RunStatus.TIMEOUT, why)
        return self._ended(at, RunStatus.FAILED, why)

    async def _timed_out(self, event: HistoryEvent, at: datetime) -> Event | None:
        why = error(ErrorCode.RUN_TIMEOUT, "The server ended the Run: no worker did in time.")
        finish = Finish(RunStatus.TIMEOUT, StopReason.DEADLINE, error=why)
        return record.ended(self._open, at, finish)

    async def _terminated(self, event: HistoryEvent, at: datetime) -> Event | None:
        reason = event.workflow_execution_terminated_event_attributes.reason
        why = error(ErrorCode.TERMINATED)
        finish = Finish(RunStatus.CANCELLED, StopReason.TERMINATED, error=why, reason=reason)
        return record.ended(self._open, at, finish)

    def _ended(self, at: datetime, status: RunStatus, why: RunError | None) -> Event:
        """Record the end that the pure core decides on, if that is how the history ends.

        It differs when the engine itself failed: then the history is right.
        """
        finish: Finish | None = None
        is_stopped = self._open.cancel is not None
        is_open = is_stopped or self._open.status is RunStatus.RUNNING
        if is_open and self._open.current_step is None:
            decision = decide(self._open)
            finish = decision if isinstance(decision, Finish) else None
        if finish is None or finish.status is not status or (why and finish.error != why):
            finish = Finish(status, StopReason.ERROR, error=why)
        return record.ended(self._open, at, finish)

    READERS: ClassVar["dict[EventType.ValueType, Reader]"] = {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: _execution_started,
        EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED: _task_started,
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: _task_completed,
        EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: StepReader.activity_scheduled,
        EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: StepReader.activity_completed,
        EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: StepReader.activity_failed,
        EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: StepReader.activity_timed_out,
        EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: StepReader.activity_canceled,
        EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: StepReader.child_initiated,
        EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED: StepReader.child_not_started,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: StepReader.child_completed,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: StepReader.child_failed,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: StepReader.child_canceled,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: StepReader.child_terminated,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: StepReader.child_timed_out,
        EventType.EVENT_TYPE_TIMER_STARTED: _timer_started,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: _signaled,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED: _cancel_requested,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: _updated,
        EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: _indexed,
        EventType.EVENT_TYPE_MARKER_RECORDED: StepReader.marked,
        EventType.EVENT_TYPE_TIMER_FIRED: _timer_fired,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: _continued,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: _completed,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: _canceled,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: _failed,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: _timed_out,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: _terminated,
    }


Reader = Callable[[Any, HistoryEvent, datetime], Coroutine[Any, Any, Event | None]]
