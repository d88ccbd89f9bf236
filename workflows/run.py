"""The workflow of a Run: it executes what `decide` says and records what happened.

No rule about what a Run does stands here, and no look-up: no clock, no randomness, no agent,
no environment. The state is one `Run`, which is also what is carried to a continue-as-new.
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import assert_never

from perdure.runs import contract, pages, record
from perdure.runs.contract import (
    BeginRequest,
    CancelRequest,
    RaiseLimitsRequest,
    RunPage,
    RunPageRequest,
    RunRequest,
    RunResult,
    RunStatusReport,
    TranscriptPage,
    TranscriptPageRequest,
)
from perdure.runs.decide import (
    Ask,
    AwaitPeople,
    CallModel,
    CallTools,
    Finish,
    HandOff,
    Pause,
    decide,
)
from perdure.runs.errors import ErrorCode, PerdureError, error
from perdure.runs.metering import Instruments
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.workflows import steps, visible
from perdure.workflows.stepping import InFlight, Stepping
from perdure.workflows.waiting import unless_cancelled
from temporalio import workflow
from temporalio.exceptions import ApplicationError

PROGRAMMING_ERRORS: list[type[BaseException]] = [
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    PerdureError,
    RuntimeError,
    TypeError,
    ValueError,
]
"""What ends a Run `failed` instead of failing its task for ever. `Exception` would do that to
Temporal's NondeterminismError as well: one bad deployment would then kill every open Run, where
now they wait for the code that can go on with them."""


@workflow.defn(name=contract.RUN_WORKFLOW, failure_exception_types=PROGRAMMING_ERRORS)
class RunWorkflow(Stepping):
    """One Run, from its input to its end."""

    @workflow.init
    def __init__(self, request: RunRequest) -> None:
        self.in_flight: dict[int, InFlight] = {}
        # It keeps silent in a replay: nothing is measured twice.
        self.instruments = Instruments(workflow.metric_meter())
        self.state = request.carried or self.begun(request)
        if request.resumption is not None:
            began = workflow.info().start_time
            self.emit(record.resumed(self.state, began, request.resumption))

    def begun(self, request: RunRequest) -> Run:
        """Return the Run at its first moment."""
        info = workflow.info()
        if request.start is None:
            raise ApplicationError("A Run needs a start.", type=ErrorCode.INTERNAL)
        return Run.begin(record.queued(info.workflow_id, request.start, info.start_time))

    @workflow.run
    async def run(self, request: RunRequest) -> RunResult:
        """Work until `decide` says finish; meanwhile, watch for a cancel and the deadline."""
        if self.state.status is RunStatus.PENDING and self.state.waiting_on is None:
            self.emit(record.started(self.state, workflow.now()))
        begins = request.start is not None or request.resumption is not None
        if begins and self.state.status is RunStatus.RUNNING:
            visible.index(self.state)
        work = asyncio.create_task(self.work())
        deadline = asyncio.create_task(self.deadline())
        await self.until_stopped_or(work)
        if not work.done():
            await self.abort_in_flight()
        await self.until_done(work)
        deadline.cancel()
        return await self.finish(self.outcome_of(work))

    async def until_stopped_or(self, work: "asyncio.Task[Finish]") -> None:
        """Wait for a signal, the deadline or Temporal's own cancel, whichever stops the Run."""
        try:
            await workflow.wait_condition(lambda: work.done() or self.aborting)
        except asyncio.CancelledError:
            self.stop(CancelRequest(reason=workflow.cancellation_reason() or ""))

    async def until_done(self, work: "asyncio.Task[Finish]") -> None:
        """Wait for the work to end; Temporal's own cancel may still come, and changes nothing."""
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await workflow.wait_condition(work.done)

    async def work(self) -> Finish:
        """Execute one decision after the other; the loop of an agent."""
        if self.state.status is RunStatus.PENDING:
            await self.turn()
        while True:
            await self.hear_all()
            match decide(self.state):
                case CallModel() as call:
                    await self.continue_as_new_when_suggested()
                    await self.call_model(call)
                case CallTools() as action:
                    await self.call_tools(action.calls)
                case Ask():
                    self.ask()
                case AwaitPeople() as people:
                    await self.await_people(people)
                case HandOff():
                    self.hand_off()
                case Pause() as why:
                    await self.pause(why)
                case Finish() as finish:
                    return finish
                case other:
                    assert_never(other)

    async def turn(self) -> None:
        """Wait until the Session lets the Run begin, or it is stopped, or has waited too long."""
        until = self.state.waiting_on.expires_at if self.state.waiting_on else None
        try:
            with unless_cancelled():
                await workflow.wait_condition(
                    lambda: self.state.status is RunStatus.RUNNING or self.stopping,
                    timeout=None if until is None else max(until - workflow.now(), timedelta(0)),
                    timeout_summary="queue timeout",
                )
        except TimeoutError:
            event = record.queue_expired(self.state, workflow.now())
            if event is not None:
                self.emit(event)
        if self.state.status is RunStatus.RUNNING:
            visible.index(self.state)

    async def pause(self, why: Pause) -> None:
        """Wait for a person to let the Run go on, or to stop it; what it waits for may change."""
        self.emit(record.paused(self.state, workflow.now()))
        visible.index_waiting(self.state)
        with unless_cancelled():
            await workflow.wait_condition(lambda: decide(self.state) != why)
        if not self.stopping and not isinstance(decide(self.state), Pause):
            self.emit(record.unpaused(self.state, workflow.now()))
            visible.index_waiting(self.state)

    async def deadline(self) -> None:
        """Stop the Run when its time is up; its agent's limit is known after the first call."""
        await workflow.wait_condition(lambda: self.state.deadline is not None)
        until = self.state.deadline or workflow.now()
        await workflow.sleep(max(until - workflow.now(), timedelta(0)), summary="run timeout")
        event = record.deadline_passed(self.state, workflow.now())
        if event is not None:
            self.emit(event)

    async def continue_as_new_when_suggested(self) -> None:
        """Go on with a fresh history when the server says that this one is long."""
        if not workflow.info().is_continue_as_new_suggested() or self.stopping:
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        # A turn boundary is where any version can go on: the old one is not kept alive for us.
        workflow.continue_as_new(
            RunRequest(carried=self.state),
            initial_versioning_behavior=workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE,
        )

    def outcome_of(self, work: "asyncio.Task[Finish]") -> Finish:
        """Return how the work ended; a programming error ends the Run, visibly."""
        try:
            return work.result()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the Run must end and say so
            workflow.logger.exception("The Run failed by a programming error")
            return record.broken(error(ErrorCode.INTERNAL, f"{type(exc).__name__}: {exc}"))

    async def finish(self, finish: Finish) -> RunResult:
        """Record the end and let Temporal's own status say the same."""
        self.emit(record.ended(self.state, workflow.now(), finish))
        visible.index(self.state)
        visible.log_end(self.state)
        await workflow.wait_condition(workflow.all_handlers_finished)
        if finish.status is RunStatus.COMPLETED:
            return RunResult(
                output=finish.output or "", turns=self.state.turn, usage=self.state.usage
            )
        if finish.status is RunStatus.CANCELLED:
            await self.until_cancelled(finish.reason)
        why = finish.error or error(ErrorCode.CANCELLED)
        details = [why.model_dump(mode="json")]
        if self.state.depth > 0:
            details.append(self.state.usage.model_dump(mode="json"))
        raise ApplicationError(why.message, *details, type=why.code, non_retryable=True)

    async def until_cancelled(self, reason: str) -> None:
        """Return control only as Canceled: Temporal allows that once it was asked to cancel."""
        if workflow.cancellation_reason() is None:
            asked = asyncio.create_task(steps.request_cancel(CancelRequest(reason=reason)))
            await workflow.wait_condition(asked.done)
            asked.result()
            await workflow.wait_condition(lambda: workflow.cancellation_reason() is not None)
        raise asyncio.CancelledError(reason)

    @workflow.signal(name=contract.CANCEL_SIGNAL)
    def on_cancel(self, request: CancelRequest) -> None:
        """Stop the Run; nothing new starts, what is in flight is told."""
        self.stop(request)

    @workflow.signal(name=contract.BEGIN_SIGNAL)
    def on_begin(self, request: BeginRequest) -> None:
        """Begin: it is the Run's turn in its Session."""
        if self.state.status is RunStatus.PENDING:
            self.emit(record.started(self.state, workflow.now(), request.share))

    @workflow.update(name=contract.RAISE_LIMITS_UPDATE)
    def on_raise_limits(self, request: RaiseLimitsRequest) -> RunStatusReport:
        """Change how much the Run may use; one that waits for that goes on."""
        self.emit(record.limits_raised(self.state, workflow.now(), request.limits))
        return pages.status_report(self.state)

    @on_raise_limits.validator
    def check_raise_limits(self, request: RaiseLimitsRequest) -> None:
        """Refuse what would change nothing."""
        record.check_limits(self.state, request.limits)

    @workflow.query(name=contract.STATUS_QUERY)
    def status(self) -> RunStatusReport:
        """Tell where the Run stands."""
        return pages.status_report(self.state)

    @workflow.query(name=contract.RUN_QUERY)
    def run_page(self, request: RunPageRequest) -> RunPage:
        """Tell everything about the Run, a page of Steps at a time."""
        return pages.run_page(self.state, request)

    @workflow.query(name=contract.TRANSCRIPT_QUERY)
    def transcript_page(self, request: TranscriptPageRequest) -> TranscriptPage:
        """Return messages of the Run, for a worker that does not have them."""
        return pages.transcript_page(self.state, request)
