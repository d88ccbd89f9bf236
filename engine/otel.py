"""Recording and sending Traces: OpenTelemetry set up as its standard variables say.

Imported only where they are wanted (`engine/tracing.py`).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NoOpTracer, Tracer
from opentelemetry.util.types import Attributes
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, ReplaySafeTracerProvider
from temporalio.contrib.opentelemetry._id_generator import TemporalIdGenerator
from temporalio.plugin import SimplePlugin

from perdure.engine.run_spans import RunSpans
from perdure.engine.tracing import EXPORTER, RUN_SPANS
from perdure.runs.errors import ConfigurationError

SERVICE = "perdure"
"""Name of the service, where OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES give none."""
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
EXPORTERS = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
}
DEFAULT_PROTOCOL = "http/protobuf"
"""https://opentelemetry.io/docs/specs/otel/protocol/exporter/#specify-protocol"""
CLOSE_S = 3.0
"""How long the last spans may take to be sent when a process ends: nothing waits for a collector
that does not answer."""
NOISY = ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal")
"""What logs each batch that could not be sent, and each span that found no room meanwhile."""
UNWANTED = "mcp-python-sdk"
"""It puts the words of errors into its spans; `execute_tool` says the same without."""

log = logging.getLogger(__name__)

_given: ContextVar[tuple[int, int] | None] = ContextVar("perdure_span_ids", default=None)


class Ids(TemporalIdGenerator):
    """Draws ids, but for the span that is given its own."""

    def __init__(self) -> None:
        super().__init__(RandomIdGenerator())

    @contextmanager
    def given(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Give the span that the block starts its ids."""
        token = _given.set((trace_id, span_id))
        try:
            yield
        finally:
            _given.reset(token)

    def generate_trace_id(self) -> int:
        """Return the given id, or a drawn one."""
        given = _given.get()
        return given[0] if given is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """Return the given id, or a drawn one."""
        given = _given.get()
        return given[1] if given is not None else super().generate_span_id()


class Provider(ReplaySafeTracerProvider):
    """The provider of all spans of the process, other people's libraries' included."""

    def __init__(self, recorded: TracerProvider, ids: TemporalIdGenerator) -> None:
        super().__init__(recorded, ids)
        self._plain: dict[str, Tracer] = {}

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes | None = None,
    ) -> Tracer:
        """Return a tracer; one that records nothing for what would tell too much."""
        if instrumenting_module_name == UNWANTED:
            return NoOpTracer()
        if instrumenting_library_version or schema_url or attributes:
            return super().get_tracer(
                instrumenting_module_name, instrumenting_library_version, schema_url, attributes
            )
        # Temporal's SDK asks for its own twice in each Step, and to make one is a tenth of the
        # processor time that a Step's Trace takes.
        known = self._plain.get(instrumenting_module_name)
        if known is None:
            known = super().get_tracer(instrumenting_module_name)
            self._plain[instrumenting_module_name] = known
        return known


class Quietly(SpanExporter):
    """Sends spans; that it can't is said once, until it can again.

    Args:
        exporter: What sends them.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._failing = False
        for name in NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        try:
            result = self._exporter.export(spans)
        except Exception as exc:  # noqa: BLE001 - whatever it is, only spans are lost
            result = SpanExportResult.FAILURE
            log.debug("A batch of spans can't be sent: %s", type(exc).__name__)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("Traces can't be sent; spans are lost until that works. Runs go on.")
        elif self._failing and not failing:
            log.warning("Traces are sent again.")
        self._failing = failing
        return result

    def shutdown(self) -> None:
        """Give up what is being sent."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Send what is kept."""
        return self._exporter.force_flush(timeout_millis)


class RunSpansPlugin(SimplePlugin):
    """Lets the workers of a client record Runs; the SDK warns of two plugins of one type."""

    def __init__(self, spans: RunSpans) -> None:
        super().__init__(RUN_SPANS, interceptors=[spans])


@dataclass(frozen=True)
class Tracing:
    """Traces of this process, while it records them."""

    provider: Provider
    plugins: tuple[SimplePlugin, ...]
    """For the client of a worker; the second one within the first."""

    @classmethod
    def configured(cls, environment: Mapping[str, str]) -> "Tracing":
        """Set up what the environment asks for, for the whole process.

        Raises:
            ConfigurationError: When spans can't be sent that way.
        """
        exporters = _exporters(environment)
        ids = Ids()
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
        recorded = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
        for exporter in exporters:
            recorded.add_span_processor(BatchSpanProcessor(Quietly(exporter)))
        provider = Provider(recorded, ids)
        trace.set_tracer_provider(provider)
        runs = RunSpans(ids.given, recorded.sampler)
        return cls(provider, (OpenTelemetryPlugin(), RunSpansPlugin(runs)))

    def close(self) -> None:
        """Send what has ended; give up after `CLOSE_S`."""
        closing = threading.Thread(target=self.provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


def _exporters(environment: Mapping[str, str]) -> list[SpanExporter]:
    names = [each.strip().lower() for each in environment.get(EXPORTER, "").split(",")]
    return [_exporter(name, environment) for name in names if name != "none"]


def _exporter(name: str, environment: Mapping[str, str]) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    if name not in ("", "otlp"):
        raise ConfigurationError(f"{EXPORTER}: {name!r} is not known.", hint="Set it to otlp.")
    asked = environment.get(TRACES_PROTOCOL) or environment.get(PROTOCOL) or DEFAULT_PROTOCOL
    module = EXPORTERS.get(asked.strip().lower())
    if module is None:
        known = " or ".join(EXPORTERS)
        raise ConfigurationError(f"{PROTOCOL}: {asked!r} is not known.", hint=f"Set it to {known}.")
    try:
        made: Callable[[], SpanExporter] = import_module(module).OTLPSpanExporter
    except ImportError:
        raise ConfigurationError(
            "Traces are asked for by OTEL_* variables, and what sends them is not installed.",
            hint="pip install 'perdure[otlp]', or set OTEL_SDK_DISABLED=true.",
        ) from None
    return made()
