"""Traces: what span we are in."""

import sys

from perdure.runs.tracing import TraceContext


def current_span() -> TraceContext | None:
    """Return OpenTelemetry's current span, in whoever's code; none when there is none."""
    if "opentelemetry.trace" not in sys.modules:
        return None  # whoever has a span has imported that
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return TraceContext(
        trace_id=trace.format_trace_id(context.trace_id),
        span_id=trace.format_span_id(context.span_id),
        sampled=context.trace_flags.sampled,
    )
