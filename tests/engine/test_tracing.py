"""Which variables switch Traces on, and how their Spans get ids."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes

from perdure.engine.otel import Ids, Provider, Tracing
from perdure.engine.run_spans import RunSpans
from perdure.engine.settings import Settings
from perdure.engine.tracing import shows_content, tracing, wanted
from perdure.runs import record, spans
from perdure.runs.errors import ConfigurationError
from perdure.runs.run import Run
from perdure.runs.start import RunStart
from perdure.runs.tracing import TraceContext

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
    ids=["nothing", "name", "endpoint", "traces", "exporter", "none", "disabled", "empty"],
)
def test_standard_variables_switch_traces_on(environment: dict[str, str], on: bool) -> None:
    assert wanted(environment) is on
    assert not shows_content(environment)


def test_content_is_shown_only_where_the_standard_variable_says_so() -> None:
    name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    assert shows_content({name: "true"})
    assert not shows_content({name: "span_only"})


@pytest.mark.parametrize(
    "wrong",
    [{"OTEL_TRACES_EXPORTER": "zipkin"}, ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}],
    ids=["exporter", "protocol"],
)
def test_what_can_t_be_used_is_refused_with_a_way_out(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="is not known") as refused:
        Tracing.configured(wrong)
    assert refused.value.hint


def test_an_exporter_that_is_not_installed_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    for name, value in ENDPOINT.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="not installed") as refused, tracing():
        raise AssertionError("never reached")
    assert "perdure[otlp]" in str(refused.value.hint)


def test_a_worker_without_traces_imports_nothing_of_opentelemetry() -> None:
    code = "import sys, perdure.worker; print([m for m in sys.modules if 'opentelemetry' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert found.stdout.strip() == "[]"


def test_a_span_gets_the_ids_it_is_given_and_others_their_own() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    ids = Ids()
    provider = Provider(TracerProvider(id_generator=ids, shutdown_on_exit=False), ids)
    tracer = provider.get_tracer("perdure")
    with ids.given(7, 9):
        given = tracer.start_span("a", context=trace.set_span_in_context(trace.INVALID_SPAN))
    other = tracer.start_span("b", context=trace.set_span_in_context(trace.INVALID_SPAN))
    found = given.get_span_context()
    assert (found.trace_id, found.span_id) == (7, 9)
    assert other.get_span_context().span_id != 9
    assert provider.get_tracer("perdure") is tracer
    quiet = provider.get_tracer("mcp-python-sdk").start_span("MCP send")
    assert not quiet.is_recording()


def test_a_library_keeps_its_version_in_its_spans() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    ids, kept = Ids(), InMemorySpanExporter()
    recorded = TracerProvider(id_generator=ids, shutdown_on_exit=False)
    recorded.add_span_processor(SimpleSpanProcessor(kept))
    provider = Provider(recorded, ids)
    for version in (None, "1.0", "2.0", None):
        provider.get_tracer("library", version).start_span("a").end()
    scopes = [span.instrumentation_scope for span in kept.get_finished_spans()]
    assert [scope.version for scope in scopes if scope] == ["", "1.0", "2.0", ""]


@contextmanager
def no_ids(trace_id: int, span_id: int) -> Iterator[None]:
    yield


def run_of(run_id: str, part_of: TraceContext | None = None) -> Run:
    start = RunStart(agent="a", input="Go.", part_of=part_of)
    return Run.begin(record.queued(run_id, start, NOW))


def is_sampled(sampler: Sampler, run: Run) -> bool:
    context = RunSpans(no_ids, sampler).around(run)
    found = trace.get_current_span(context).get_span_context()
    assert trace.format_span_id(found.span_id) == run.span.span_id
    return found.trace_flags.sampled


def test_all_workers_decide_the_same_of_a_trace_and_callers_decide_for_theirs() -> None:
    half = ParentBased(TraceIdRatioBased(0.5))
    runs = [run_of(f"run_{number}") for number in range(200)]
    drawn = [is_sampled(half, run) for run in runs]
    assert drawn == [is_sampled(ParentBased(TraceIdRatioBased(0.5)), run) for run in runs]
    assert 60 < sum(drawn) < 140
    # A Run that another one has called is in the same Trace, and so recorded if that one is.
    children = [run_of(f"child_{number}", run.span) for number, run in enumerate(runs)]
    assert [is_sampled(half, child) for child in children] == drawn
    for sampled in (True, False):
        caller = TraceContext(trace_id="a" * 32, span_id="b" * 16, sampled=sampled)
        assert is_sampled(half, run_of("r", caller)) is sampled
    assert not is_sampled(ALWAYS_OFF, run_of("r"))


def test_names_are_those_of_the_installed_conventions() -> None:
    modules = (gen_ai_attributes, error_attributes, server_attributes)
    known = {value for each in modules for value in vars(each).values() if isinstance(value, str)}
    for name in spans.ATTRIBUTES:
        assert name in known or name.startswith("perdure."), name
    constants = [value for name, value in vars(spans).items() if name.isupper()]
    named = {each for each in constants if isinstance(each, str) and "." in each}
    assert named == set(spans.ATTRIBUTES)
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert {spans.INVOKE_AGENT, spans.CHAT, spans.EXECUTE_TOOL} <= operations


@pytest.mark.parametrize("url", ["http://j/trace/{trace_id}", 'https://j/?tags={"r":"{run_id}"}'])
def test_a_link_to_traces_names_the_trace_or_the_run(url: str) -> None:
    assert Settings(trace_url=url).trace_url == url
    with pytest.raises(ValueError, match="trace_id"):
        Settings(trace_url="http://j/trace")
