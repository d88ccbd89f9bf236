"""Traces: whether this process records them, and what span we are in.

Nothing of OpenTelemetry is imported before it is known that somebody wants Traces.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.plugin import SimplePlugin

from perdure.runs.tracing import TraceContext

if TYPE_CHECKING:
    from perdure.engine.otel import Tracing

RUN_SPANS = "perdure.traces"
"""Name of the plugin of a client whose workers put Steps into their Run's Trace."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

_caller: ContextVar[TraceContext | None] = ContextVar("perdure_caller", default=None)


def wanted(environment: Mapping[str, str]) -> bool:
    """Tell whether OpenTelemetry's standard variables ask for Traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(EXPORTER, "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environment.get(name) for name in ENDPOINTS)


def shows_content(environment: Mapping[str, str]) -> bool:
    """Tell whether spans may hold what models are told and answer."""
    return environment.get(CONTENT, "").strip().lower() == "true"


@contextmanager
def tracing() -> Iterator["Tracing | None"]:
    """Record Traces while the block runs, if the environment asks for them; yield how.

    Spans that have ended are sent when the block is left, if that takes no more than moments.

    Raises:
        ConfigurationError: When they are asked for, and can't be sent.
    """
    if not wanted(os.environ):
        yield None
        return
    from perdure.engine.otel import Tracing

    recording = Tracing.configured(os.environ)
    try:
        yield recording
    finally:
        recording.close()


def is_traced(client: Client) -> bool:
    """Tell whether workers of this client record Traces."""
    plugins = client.config(active_config=True)["plugins"]
    return any(isinstance(each, SimplePlugin) and each.name() == RUN_SPANS for each in plugins)


@contextmanager
def called_from(span: TraceContext | None) -> Iterator[None]:
    """Let what the block starts be part of a span of somebody else's."""
    token = _caller.set(span)
    try:
        yield
    finally:
        _caller.reset(token)


def current_span() -> TraceContext | None:
    """Return OpenTelemetry's current span, in whoever's code, or else that of who called us."""
    if "opentelemetry.trace" not in sys.modules:
        return _caller.get()  # whoever has a span has imported that
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return _caller.get()
    return TraceContext(
        trace_id=trace.format_trace_id(context.trace_id),
        span_id=trace.format_span_id(context.span_id),
        sampled=context.trace_flags.sampled,
    )
