"""The span that a Run is, and that its Steps are children of.

A worker that starts a Step puts the Run's derived ids into the activity's header, by the SDK's
plugin, which this interceptor stands within. The span itself is recorded once, by the worker that
ends the Run: replays, workers that died and executions that continued as new record none.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue
from temporalio import workflow
from temporalio.contrib.opentelemetry._context import attached_context
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from perdure.runs import spans
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.tracing import TraceContext, span_of

Given = Callable[[int, int], AbstractContextManager[None]]
"""Gives the span that the block starts its trace id and its own."""


class RunSpans(Interceptor):
    """Makes the Steps of a Run children of its span, and records that one at the end.

    Args:
        given: How a span gets its ids.
        sampler: Says which Traces are recorded. Asked by every worker for itself, so it has to
            decide by the id of the Trace, as all of OpenTelemetry's own do.
    """

    def __init__(self, given: Given, sampler: Sampler) -> None:
        self._given = given
        self._sampler = sampler

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return what stands around the workflows of a worker."""
        recorder = self

        class Inbound(_Inbound):
            spans = recorder

        return Inbound

    def around(self, run: Run) -> Context:
        """Return the context of what a Run does: its span, as one of another process."""
        return _within(run.span, sampled=self._is_sampled(run))

    def record(self, run: Run) -> None:
        """Record the span of a Run that has ended."""
        span = run.span
        parent = self._parent(run)
        tracer = trace.get_tracer(spans.TRACER)
        with self._given(int(span.trace_id, 16), int(span.span_id, 16)):
            recorded = tracer.start_span(
                f"{spans.INVOKE_AGENT} {run.first_agent or run.agent}",
                parent,
                SpanKind.INTERNAL,
                attributes=_attributes(run),
                start_time=_ns(run.resumed_at or run.started_at or run.created_at),
            )
        if run.status in (RunStatus.FAILED, RunStatus.TIMEOUT):
            recorded.set_status(StatusCode.ERROR)
        recorded.end(workflow.time_ns())

    def _parent(self, run: Run) -> Context:
        """Return what the span is a child of: nothing, its caller's, or that of its first life."""
        if run.resumed_at is not None:
            first = TraceContext(trace_id=run.trace_id, span_id=span_of(run.run_id, None))
            return _within(first, sampled=self._is_sampled(run))
        if run.part_of is None:
            return Context()
        return _within(run.part_of, sampled=self._is_sampled(run))

    def _is_sampled(self, run: Run) -> bool:
        """Tell whether a Run's Trace is recorded: as its caller has decided, or else by its id."""
        caller = run.part_of
        above: Context | None = Context()
        if caller is not None and caller.sampled is not None:
            above = _within(caller, sampled=caller.sampled)
        found = self._sampler.should_sample(above, int(run.trace_id, 16), spans.INVOKE_AGENT)
        return found.decision is Decision.RECORD_AND_SAMPLE


class _Inbound(WorkflowInboundInterceptor):
    spans: RunSpans

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        with self._within():
            try:
                return await self.next.execute_workflow(input)
            finally:
                self._record()

    async def handle_signal(self, input: HandleSignalInput) -> None:
        with self._within():
            await self.next.handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        with self._within():
            return await self.next.handle_update_handler(input)

    @contextmanager
    def _within(self) -> Iterator[None]:
        """Stand in the Run's span, or in none: a Session outlives whoever has called it."""
        run = _run()
        with attached_context(Context() if run is None else self.spans.around(run)):
            yield

    def _record(self) -> None:
        run = _run()
        if run is None or not run.is_terminal or workflow.unsafe.is_replaying():
            return
        workflow.random()  # raises when the worker only lets go of the workflow: no end then
        self.spans.record(run)


def _run() -> Run | None:
    state = getattr(workflow.instance(), "state", None)
    return state if isinstance(state, Run) else None


def _within(span: TraceContext, *, sampled: bool) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    ids = SpanContext(int(span.trace_id, 16), int(span.span_id, 16), True, flags)
    return set_span_in_context(NonRecordingSpan(ids), Context())


def _attributes(run: Run) -> Mapping[str, AttributeValue]:
    used = run.usage
    found: dict[str, AttributeValue | None] = {
        spans.OPERATION: spans.INVOKE_AGENT,
        spans.AGENT: run.first_agent or run.agent,
        spans.CONVERSATION: run.session_id,
        spans.REQUEST_MODEL: run.model,
        spans.RUN: run.run_id,
        spans.STATUS: run.status.value,
        spans.PARENT: run.parent_run_id,
        spans.FORKED: run.forked_from,
        spans.RESUMED: True if run.resumed_at is not None else None,
        spans.TURN: run.turn,
        spans.COST: run.total_cost,
        spans.INPUT_TOKENS: used.input_tokens,
        spans.CACHED_TOKENS: used.input_tokens_details.cached_tokens,
        spans.OUTPUT_TOKENS: used.output_tokens,
        spans.REASONING_TOKENS: used.output_tokens_details.reasoning_tokens,
        spans.ERROR: run.error.code.value if run.error is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _ns(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
