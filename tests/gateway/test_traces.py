"""Whose Trace a Run is in that is started over HTTP, where nothing of ours records Traces."""

import httpx2
import pytest

from perdure import Agent
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, text, tool_calls

AGENT = Agent(name="echo")
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


async def test_a_gateway_passes_its_callers_span_on_to_runs_and_forks(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.respond_with(lambda request: text("Fine."))
    asked = {"agent": "echo", "input": "Go.", "wait": True}
    told = {"traceparent": TRACEPARENT}
    async with engine.serving(AGENT):
        run = (await http.post("/v1/runs", json=asked, headers=told)).json()
        fork = {"message": "Again."}
        forked = await http.post(f"/v1/runs/{run['run_id']}/fork", json=fork, headers=told)
        again = (await http.post("/v1/runs", json=asked)).json()
        talk = asked | {"session_id": "traced-talk"}
        in_session = (await http.post("/v1/runs", json=talk, headers=told)).json()
    assert run["part_of"] == {
        "trace_id": TRACE_ID,
        "span_id": "00f067aa0ba902b7",
        "sampled": True,
    }
    assert [each["trace_id"] for each in (run, forked.json(), in_session)] == [TRACE_ID] * 3
    assert again["trace_id"] != TRACE_ID
    assert "part_of" not in again


@pytest.mark.parametrize(
    "headers", [[("traceparent", "00-zz")], [("traceparent", TRACEPARENT)] * 2]
)
async def test_what_is_no_traceparent_is_passed_over(
    headers: list[tuple[str, str]], engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.respond_with(lambda request: text("Fine."))
    async with engine.serving(AGENT):
        asked = {"agent": "echo", "input": "Go.", "wait": True}
        run = (await http.post("/v1/runs", json=asked, headers=headers)).json()
    assert "part_of" not in run
    assert run["status"] == "completed"


async def test_without_traces_nothing_of_them_is_in_a_history(engine: Engine) -> None:
    engine.model.script([tool_calls(call("nothing", {})), text("Fine.")])
    async with engine.serving(AGENT):
        run = await engine.run("echo")
    for execution in await engine.executions(run.run_id):
        for event in execution.events:
            scheduled = event.activity_task_scheduled_event_attributes
            assert not scheduled.header.fields
    history = "".join(await engine.histories(run.run_id))
    assert "_tracer-data" not in history
    assert run.trace_id not in history
