"""Metrics of real processes: what is scraped is what happened, whoever dies meanwhile."""

import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2

from perdure.runs import metrics
from perdure.runs.status import RunStatus
from tests.conftest import free_port
from tests.e2e.ledger import Ledger, Worker
from tests.harness.alerting import used_names
from tests.harness.engine import Engine, soon
from tests.harness.metrics import Scrape, scraped
from tests.harness.processes import kill, output, perdure, said
from tests.harness.replies import Usage
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls

MODEL = "gpt-metered"
PRICES = json.dumps({MODEL: {"input": 1000, "output": 4000, "cached_input": 500}})
CANARY = "canary-5b1e"
OURS = {"agent": "clerk", "model": MODEL}
NOT_MET = {
    "perdure_run_queue_seconds_bucket",
    "perdure_runs_resumed_total",
    "perdure_unpriced_calls_total",
}
"""Metrics that nothing in these Runs measures."""
CALL = {"gen_ai_agent_name": "clerk", "gen_ai_request_model": MODEL}


@asynccontextmanager
async def gateway(engine: Engine, port: int) -> AsyncIterator[httpx2.AsyncClient]:
    env = {
        "PERDURE_TASK_QUEUE": engine.task_queue,
        "PERDURE_HTTP_PORT": "0",
        "PERDURE_HTTP_METRICS_PORT": str(port),
    }
    async with perdure("serve", env=env) as process:
        (url,) = re.findall(r"Gateway: (http[^\s\"]+)", await said(process, "Gateway: "))
        async with httpx2.AsyncClient(base_url=url, timeout=120) as http:
            yield http


async def counted(port: int, **labels: str) -> Scrape:
    """Wait for a census that has seen the workers."""
    found: list[Scrape] = []

    async def is_there() -> bool:
        found.append(await scraped(port))
        return found[-1].value("perdure_census_timestamp_seconds") > 0

    await soon(is_there, 60)
    return found[-1]


def assert_measures(seen: Scrape) -> None:
    """One Run of two model calls and a tool, one whose first request fails, one of nobody's."""
    assert seen.value("perdure_runs_started_total") == 3
    done = {"agent": "clerk", "status": "completed", "stop_reason": "end_turn"}
    assert seen.value("perdure_runs_ended_total", **done) == 2
    lost = {"agent": "unknown", "status": "failed", "stop_reason": "error"}
    assert seen.value("perdure_runs_ended_total", **lost) == 1
    assert seen.value("perdure_runs_ended_total") == 3
    assert seen.value("perdure_run_duration_seconds_count", status="completed") == 2
    assert seen.value("perdure_run_turns_sum", agent="clerk") == 3
    tokens = {"gen_ai_agent_name": "clerk", "gen_ai_response_model": MODEL}
    asked = tokens | {"gen_ai_token_type": "input"}
    assert seen.value("gen_ai_client_token_usage_sum", **asked) == 100 + 200 + 50
    said_ = tokens | {"gen_ai_token_type": "output"}
    assert seen.value("gen_ai_client_token_usage_sum", **said_) == 10 + 20 + 5
    assert seen.value("perdure_cached_tokens_total", **OURS) == 40
    assert seen.value("perdure_reasoning_tokens_total", **OURS) == 4
    usd = (60 * 1000 + 40 * 500 + 250 * 1000 + 35 * 4000) / 1e6
    assert abs(seen.value("perdure_cost_usd_sum", **OURS) - usd) < 1e-9
    assert seen.value("perdure_cost_usd_count", **OURS) == 3
    assert seen.value("perdure_steps_total", kind="model", status="completed", error_type="") == 3
    assert seen.value("perdure_steps_total", kind="tool", status="completed") == 1
    missing = {"kind": "model", "status": "failed", "error_type": "agent_not_found"}
    assert seen.value("perdure_steps_total", **missing) == 1
    assert seen.value("perdure_step_retries_total", kind="model") == 1
    retried = {"kind": "model", "code": "llm_unavailable"}
    assert seen.value("perdure_attempts_retried_total", **retried) == 1
    assert seen.value("perdure_attempts_retried_total") == 1
    operation = "gen_ai_client_operation_duration_seconds_count"
    assert seen.value(operation, error_type="", **CALL) == 3
    assert seen.value(operation, error_type="llm_unavailable", **CALL) == 1
    first = "gen_ai_client_operation_time_to_first_chunk_seconds_count"
    assert seen.value(first, **CALL) == 3
    assert seen.value("perdure_tool_duration_seconds_count", tool="look", error_type="") == 1
    assert seen.value("perdure_tool_duration_seconds_count") == 1
    assert seen.value("perdure_pace_wait_seconds_count", model=MODEL) == 4
    assert seen.value("perdure_transcript_loads_total", result="hit") == 1
    assert seen.value("perdure_transcript_loads_total") == 1
    assert seen.value("perdure_transcript_cache_bytes") > 0


async def test_what_is_scraped_is_what_happened(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    """P34, too: nothing of what Runs say or know is in a metric."""
    ledger.open()
    port, http_port = free_port(), free_port()
    engine.model.script(
        [
            tool_calls(call("look", ledger.entry(CANARY)), usage=Usage(100, 10, 40, 4)),
            text(CANARY, usage=Usage(200, 20)),
            status(503, {"error": {"message": CANARY}}),
            text("Again.", usage=Usage(50, 5)),
        ]
    )
    given = {"metrics_port": str(port), "model": MODEL, "prices": PRICES, "secret_x": CANARY}
    async with AsyncExitStack() as processes:
        process = await processes.enter_async_context(worker(**given))
        await said(process, "Worker ready")
        http = await processes.enter_async_context(gateway(engine, http_port))
        runs = []
        for agent in ("clerk", "clerk", "nobody"):
            body = {"agent": agent, "input": CANARY, "wait": True, "wait_timeout_s": 100}
            answer = await http.post("/v1/runs", json=body)
            runs.append(await engine.ended(answer.json()["run_id"]))
        assert (await http.get("/nowhere")).status_code == 404
        assert (await http.request("BREW", "/v1/runs")).status_code >= 400
        seen, told = await scraped(port), await counted(http_port)
    assert_measures(seen)
    used = sum(run.total_tokens for run in runs)
    assert seen.value("gen_ai_client_token_usage_sum") == used
    assert abs(seen.value("perdure_cost_usd_sum") - sum(r.total_cost for r in runs)) < 1e-9
    assert_gateway(told)
    for secret in (CANARY, "test-key-1234", engine.model.base_url, *(r.run_id for r in runs)):
        assert secret not in seen.text
        assert secret not in told.text
    known = seen.names | told.names
    assert used_names() - known == NOT_MET
    ours = {each.exported + ("_bucket" if each.buckets else "") for each in metrics.METRICS}
    assert ours - known == NOT_MET


def assert_gateway(told: Scrape) -> None:
    count = "http_server_request_duration_seconds_count"
    started = {"http_request_method": "POST", "http_route": "/v1/runs"}
    assert told.value(count, http_response_status_code="200", **started) == 3
    assert told.value(count, http_request_method="GET", http_route="") == 1
    assert told.value(count, http_request_method="_OTHER") == 1
    assert told.value("perdure_task_queue_pollers", task_type="workflow") == 1
    assert told.value("perdure_task_queue_pollers", task_type="activity") == 1
    for name in ("perdure_task_queue_backlog", "perdure_stuck_runs", "perdure_old_runs"):
        assert name in told.names
        assert told.value(name) == 0


async def test_a_killed_worker_and_the_one_that_goes_on_measure_each_thing_once(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    ledger.open()
    ports = free_port(), free_port()
    gate = Gate(timeout_s=60)
    engine.model.script(
        [
            tool_calls(call("look", ledger.entry("one")), usage=Usage(100, 10)),
            text("Half ", "an answer").hold(gate, before_chunk=2),
            text("A whole answer.", usage=Usage(200, 20)),
        ]
    )
    async with worker(metrics_port=str(ports[0]), model=MODEL) as first:
        await said(first, "Worker ready")
        run_id = await engine.start("clerk")
        await gate.reached
        before = await scraped(ports[0])
        await kill(first)
    async with worker(metrics_port=str(ports[1]), model=MODEL) as second:
        await said(second, "Worker ready")
        run = await engine.ended(run_id)
        after = await scraped(ports[1])
    assert run.status is RunStatus.COMPLETED

    def both(name: str, **labels: str) -> tuple[float, float]:
        return before.value(name, **labels), after.value(name, **labels)

    assert both("perdure_runs_started_total") == (1, 0)
    assert both("perdure_runs_ended_total", agent="clerk", status="completed") == (0, 1)
    assert both("gen_ai_client_token_usage_sum") == (110, 220)
    assert both("perdure_steps_total", kind="tool") == (1, 0)
    assert both("perdure_steps_total", kind="model") == (1, 1)
    assert both("perdure_step_retries_total") == (0, 1)
    assert both("perdure_run_turns_sum") == (0, 2)
    # The second has neither seen the conversation nor been told of it: it read the workflow.
    assert both("perdure_transcript_loads_total", result="hit") == (1, 0)
    assert both("perdure_transcript_loads_total", result="miss") == (0, 1)


async def test_a_port_that_is_taken_is_named_with_the_way_out(engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        env = {"PERDURE_HTTP_METRICS_PORT": port, "PERDURE_HTTP_PORT": "0"}
        code, _, error = await output("serve", env=env)
    assert code == 6
    assert f"Metrics can't be served at 127.0.0.1:{port}" in error
    assert "PERDURE_HTTP_METRICS_PORT" in error
    assert "Traceback" not in error
