from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runs.tracing import TraceContext, span_of, trace_of

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (CALLER, True),
        (CALLER[:-1] + "0", False),
        (f" {CALLER} ", True),
        (f"cc{CALLER[2:]}-x", True),
    ],
    ids=["sampled", "not", "spaces", "later version"],
)
def test_a_traceparent_is_read(text: str, sampled: bool) -> None:
    read = TraceContext.parsed(text)

    assert read == TraceContext(
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", sampled=sampled
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        CALLER.upper(),
        f"ff{CALLER[2:]}",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    ],
    ids=["nothing", "short", "upper case", "forbidden version", "no trace", "no span"],
)
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert TraceContext.parsed(text) is None


@given(st.text())
def test_anything_may_come_as_a_traceparent(text: str) -> None:
    TraceContext.parsed(text)


def test_ids_are_the_same_wherever_they_are_derived() -> None:
    # Frozen: Steps of Runs that are going on are exported under these.
    assert trace_of("run_1", None) == "3407eb9f58d804016ae372f842b10372"
    assert span_of("run_1", None) == "5c83941becf5f80e"
    assert span_of("run_1", datetime(2026, 1, 2, tzinfo=UTC)) == "4d6375de27c50b44"


def test_a_run_goes_on_in_its_callers_trace() -> None:
    caller = TraceContext.parsed(CALLER)
    assert caller is not None
    assert trace_of("run_1", caller) == caller.trace_id
