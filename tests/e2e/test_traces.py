"""Traces of Runs, as a real OTLP receiver gets them from worker and gateway processes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from perdure.runs import spans
from perdure.runs.run import Run
from tests.e2e.test_serve import serve
from tests.e2e.traced import CANARY, assert_one_tree, only, serving
from tests.harness.engine import Engine
from tests.harness.otlp import Receiver, Span
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    call,
    status,
    text,
    tool_calls,
)

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{CALLER[0]}-{CALLER[1]}-01"
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
QUOTA = {"error": {"code": "insufficient_quota", "message": f"No money for {CANARY}."}}


def is_judge(request: RecordedRequest) -> bool:
    return bool(request.body["model"] == "judge-model")


async def test_sub_agents_judges_and_mcp_calls_are_in_the_same_trace_without_content(
    engine: Engine, receiver: Receiver, tmp_path: Path
) -> None:
    log = tmp_path / "mcp"
    engine.model.on(is_judge, text(json.dumps({"reason": "It does.", "passes": True})))
    engine.model.script(
        [
            tool_calls(
                call("helper", {"input": f"Help with {CANARY}."}, id="h"),
                call("s__echo", {"text": "hello"}, id="e"),
                usage=(20, 5),
            ),
            tool_calls(call("note", {"text": f"{CANARY} note"}, id="n")),
            text("Helped."),
            text("Done.", usage=(30, 6)),
        ]
    )
    env = receiver.env(OTEL_EXPORTER_OTLP_HEADERS="x-tenant=one", MCP_LOG=str(log))
    async with serving(engine, **env, OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test"):
        run = await engine.run("chief", f"Cook {CANARY}.")
        await receiver.until(run.trace_id, "invoke_agent chief", "invoke_agent helper")
    found = receiver.of(run.trace_id)
    assert found == receiver.spans
    assert_one_tree(found)
    assert {span.service for span in found} == {"perdure"}
    assert {span.scope for span in found} == {"perdure"}
    root, child = only(found, "invoke_agent chief"), only(found, "invoke_agent helper")
    assert (root.parent_id, child.parent_id) == ("", root.span_id)
    assert child["perdure.run.parent_id"] == run.run_id
    mcp, judge = only(found, "execute_tool s__echo"), only(found, "chat judge-model")
    note = only(found, "execute_tool note")
    assert (mcp.parent_id, judge.parent_id, note.parent_id) == (
        root.span_id,
        root.span_id,
        child.span_id,
    )
    assert (mcp[spans.TOOL_TYPE], note[spans.TOOL_TYPE]) == ("extension", "function")
    assert (judge[spans.AGENT], judge[spans.PURPOSE]) == ("rules", "judge")
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    (sent,) = [each["params"]["_meta"] for each in asked if each.get("method") == "tools/call"]
    assert sent["traceparent"] == f"00-{run.trace_id}-{mcp.span_id}-01"
    assert_conventional(found, run, engine)
    assert all("traceparent" not in each.headers for each in engine.model.requests)
    assert {each["x-tenant"] for each in receiver.headers} == {"one"}
    told = "".join(span.raw for span in found)
    for word in (CANARY, "hello", "Helped.", "Done.", "Cook"):
        assert word not in told


def assert_conventional(found: list[Span], run: Run, engine: Engine) -> None:
    """Every attribute is one that the docs name, on a span that the docs name it for."""
    for span in found:
        operation = span[spans.OPERATION]
        assert span.name.startswith(f"{operation} ")
        assert span[spans.RUN]
        for name in span.attributes:
            meaning = spans.ATTRIBUTES[name]
            assert operation in meaning.spans
            assert not meaning.is_content
    chat = next(span for span in found if span[spans.FINISH_REASONS] == ["tool_calls"])
    assert chat.kind == 3  # client
    assert (chat[spans.INPUT_TOKENS], chat[spans.OUTPUT_TOKENS]) == (20, 5)
    assert chat[spans.PROVIDER] == "openai"
    assert f"{chat[spans.SERVER]}:{chat[spans.PORT]}" in engine.model.base_url
    assert (chat[spans.STEP], chat[spans.TURN], chat[spans.ATTEMPT]) == (1, 1, 1)


async def test_what_is_said_is_in_spans_when_it_is_asked_for_but_no_secrets(
    engine: Engine, receiver: Receiver
) -> None:
    engine.model.script(
        [
            status(429, QUOTA),
            tool_calls(call("note", {"text": f"{CANARY} note"}), call("fail", {"text": "x" * 99})),
            text("Done, " + "y" * 100_000),
        ]
    )
    async with serving(engine, **receiver.env("grpc", **CONTENT)):
        failed = await engine.run("clerk", "Go.")
        run = await engine.run("clerk", f"Cook {CANARY} with sk-abcdefghijklmnop.")
        await receiver.until(failed.trace_id, "invoke_agent clerk")
        found = await receiver.until(run.trace_id, "invoke_agent clerk")
    refused = only(receiver.of(failed.trace_id), "chat gpt-5-mini")
    assert (refused.error, refused["error.type"]) == (True, "quota_exhausted")
    assert "No money for [redacted]." in refused.raw
    first, last = sorted(
        (span for span in found if span[spans.OPERATION] == "chat"), key=lambda s: s[spans.STEP]
    )
    opening = json.loads(first[spans.INPUT_MESSAGES])
    said = {"type": "text", "content": "Cook [redacted] with [redacted]."}
    assert opening[-1] == {"role": "user", "parts": [said]}
    (asked,) = json.loads(first[spans.OUTPUT_MESSAGES])
    assert asked["finish_reason"] == "tool_calls"
    assert [part["name"] for part in asked["parts"]] == ["note", "fail"]
    told = json.loads(last[spans.INPUT_MESSAGES])
    assert [each["role"] for each in told[-2:]] == ["tool", "tool"]
    assert len(last[spans.OUTPUT_MESSAGES]) < 32_768
    assert only(found, "execute_tool note")[spans.RESULT] == "noted [redacted] note"
    wrong = only(found, "execute_tool fail")
    assert (wrong.error, wrong["error.type"]) == (True, "tool_failed")
    assert f"ValueError: no {'x' * 99}" in wrong.raw
    everything = "".join(span.raw for span in receiver.spans)
    assert CANARY not in everything
    assert "abcdefghijklmnop" not in everything


async def test_a_callers_trace_goes_on_through_client_gateway_and_the_queue_of_a_session(
    engine: Engine, receiver: Receiver
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("One.").hold(gate), *[text(f"{n}.") for n in range(9)]])
    caller = NonRecordingSpan(
        SpanContext(int(CALLER[0], 16), int(CALLER[1], 16), False, TraceFlags(1))
    )
    async with serving(engine, **receiver.env()), traced_gateway(engine, receiver) as http:
        with trace.use_span(caller):
            plain = await engine.start("clerk")
        asked = {"agent": "clerk", "input": "Go.", "session_id": "traced", "on_busy": "enqueue"}
        headers = {"traceparent": TRACEPARENT, "Idempotency-Key": "one"}
        await gate.reached
        first = await http.post("/v1/runs", json=asked, headers=headers)
        again = await http.post("/v1/runs", json=asked, headers={"Idempotency-Key": "one"})
        queued = await http.post("/v1/runs", json=asked, headers={"traceparent": TRACEPARENT})
        lonely = await http.post("/v1/runs", json={"agent": "clerk", "input": "Go."})
        gate.open()
        await engine.ended(plain)
        assert (first.status_code, again.json()["run_id"]) == (202, first.json()["run_id"])
        ids = [each.json()["run_id"] for each in (first, queued)]
        runs = [await engine.ended(run_id) for run_id in ids]
        own = await engine.ended(lonely.json()["run_id"])
        forked = await http.post(f"/v1/runs/{plain}/fork", json={"message": "Again."})
        fork = await engine.ended(forked.json()["run_id"])
        await http.get("/healthz")
        names = ["invoke_agent clerk"] * 3
        found = await receiver.until(CALLER[0], *names)
        alone = await receiver.until(own.trace_id, "invoke_agent clerk", "POST /v1/runs")
        await receiver.until(fork.trace_id, "invoke_agent clerk")
    assert {run.trace_id for run in runs} == {CALLER[0]}
    assert_one_tree(found, CALLER[1])
    requests = {span.span_id: span for span in found if span.name == "POST /v1/runs"}
    assert {span.parent_id for span in requests.values()} == {CALLER[1]}
    parents = {
        span[spans.RUN]: span.parent_id for span in found if span.name == "invoke_agent clerk"
    }
    assert parents.pop(plain) == CALLER[1]
    assert set(parents.values()) <= set(requests)
    assert {span[spans.CONVERSATION] for span in found if span[spans.STEP]} == {None, "traced"}
    assert only(alone, "invoke_agent clerk").parent_id == only(alone, "POST /v1/runs").span_id
    of_fork = only(receiver.of(fork.trace_id), "invoke_agent clerk")
    assert of_fork[spans.FORKED] == plain
    assert not [span for span in receiver.spans if "healthz" in span.raw]
    assert "Idempotency" not in "".join(span.raw for span in receiver.spans)


@asynccontextmanager
async def traced_gateway(engine: Engine, receiver: Receiver) -> AsyncIterator[httpx2.AsyncClient]:
    async with serve(engine, **receiver.env()) as (_, http):
        yield http
