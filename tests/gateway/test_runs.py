"""Runs over HTTP: started, waited for, read, found, steered, stopped, deleted."""

import json

import httpx2

from perdure import Agent, Limits, tool
from perdure.runs.run import Run
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls


@tool(effect="read")
def look(what: str) -> str:
    """Look something up."""
    return f"{what} is blue."


@tool(effect="unsafe", approval=True)
def paint(what: str) -> str:
    """Paint something."""
    return f"{what} is painted."


AGENT = Agent(
    name="painter", description="Paints.", tools=[look, paint], limits=Limits(max_turns=9)
)
START = {"agent": "painter", "input": "What colour is the sky?"}


async def test_a_run_is_started_and_then_waited_for(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.script([tool_calls(call("look", {"what": "It"})), text("Blue.")])
    async with engine.serving(AGENT):
        begun = await http.post("/v1/runs", json=START)
        assert begun.status_code == 202
        run_id = begun.json()["run_id"]
        assert begun.headers["location"] == f"/v1/runs/{run_id}"
        waited = await http.get(f"/v1/runs/{run_id}/wait?timeout_s=60")
        assert waited.status_code == 200
        assert waited.json()["output"] == "Blue."
        run = await engine.ended(run_id)
        assert Run.model_validate(waited.json()) == run
        assert Run.model_validate((await http.get(f"/v1/runs/{run_id}")).json()) == run
        steps = (await http.get(f"/v1/runs/{run_id}/steps?starting_after=1&limit=1")).json()
        assert [each["step"]["number"] for each in steps["steps"]] == [2]
        assert steps["steps"][0]["call"]["arguments"] == '{"what": "It"}'
        assert steps["has_more"]
        result = await http.get(f"/v1/runs/{run_id}/result/2")
        assert result.json()["result"] == "It is blue."
        assert (await http.get(f"/v1/runs/{run_id}/tree")).json()["status"] == "completed"


async def test_a_run_can_be_waited_for_where_it_is_started(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Blue."), text("Green.").hold(gate)])
    async with engine.serving(AGENT):
        ended = await http.post("/v1/runs", json=START | {"wait": True, "wait_timeout_s": 60})
        assert (ended.status_code, ended.json()["output"]) == (200, "Blue.")
        goes_on = await http.post("/v1/runs", json=START | {"wait": True, "wait_timeout_s": 0.2})
        assert (goes_on.status_code, goes_on.json()["status"]) == (202, "running")
        run_id = goes_on.json()["run_id"]
        assert (await http.get(f"/v1/runs/{run_id}/wait?timeout_s=0")).status_code == 202
        gate.open()
        assert (await http.get(f"/v1/runs/{run_id}/wait?timeout_s=60")).status_code == 200
        await engine.ended(run_id)


async def test_every_start_field_arrives(engine: Engine, http: httpx2.AsyncClient) -> None:
    engine.model.script([text('{"colour": "blue"}')])
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    given = {
        "agent": "painter",
        "input": "Say it.",
        "files": [{"name": "a.txt", "data": "aGVsbG8="}],
        "context": {
            "messages": [
                {"role": "user", "content": "Look."},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c1", "name": "look", "arguments": "{}"}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "Blue."},
                {"role": "assistant", "content": "I did."},
            ],
            "variables": {"n": 3544790567247868102},
        },
        "model": "other-model",
        "limits": {"max_turns": 4},
        "on_limit": "finalize",
        "on_unknown": "ask",
        "timeouts": {"run_s": 500},
        "metadata": {"ticket": "7"},
        "output_schema": schema,
        "wait": True,
        "wait_timeout_s": 60,
    }
    async with engine.serving(AGENT):
        answer = await http.post("/v1/runs", json=given)
        assert answer.status_code == 200, answer.text
        run = Run.model_validate(answer.json())
        assert run == await engine.ended(run.run_id)
    assert run.input_files[0].sha256.startswith("2cf24dba")
    assert len(run.context.messages) == 4
    assert run.context.variables == {"n": 3544790567247868102}
    assert (run.model, run.limits.max_turns, run.on_limit) == ("other-model", 4, "finalize")
    assert (run.on_unknown, run.timeouts.run_s, run.metadata) == ("ask", 500, {"ticket": "7"})
    assert run.output_parsed == {"colour": "blue"}
    assert engine.model.requests[0].body["model"] == "other-model"


async def test_numbers_come_and_go_exactly(engine: Engine, http: httpx2.AsyncClient) -> None:
    """GATE-10."""
    exact = '{"foo":3544790567247868102,"d":0.2345678901234568,"big":' + "9" * 30 + "}"
    body = f'{{"agent":"painter","input":{json.dumps(exact)},"context":{{"variables":{exact}}},'
    engine.model.script([tool_calls(call("look", exact.replace('"foo"', '"what":"x","foo"')))])
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        answer = await http.post(
            "/v1/runs",
            content=body + '"wait":true,"wait_timeout_s":60}',
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 200
        run_id = answer.json()["run_id"]
        for path in ("", "/wait", "/events?limit=1"):
            raw = (await http.get(f"/v1/runs/{run_id}{path}")).text
            assert f'"variables":{exact}' in raw.replace(": ", ":").replace(", ", ",")
            assert json.dumps(exact) in raw


async def test_events_are_read_in_pages_that_do_not_wait(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("look", {"what": "It"})), text("Blue.").hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("painter")
        await gate.reached
        page = (await http.get(f"/v1/runs/{run_id}/events")).json()
        assert not page["has_more"]
        assert page["events"][-1]["type"] == "run.step.started"
        steps = (await http.get(f"/v1/runs/{run_id}/steps")).json()["steps"]
        assert steps[-1]["pending"]["attempt"] == 1
        gate.open()
        await engine.ended(run_id)
        found: list[dict[str, object]] = []
        after, more = -1, True
        while more:
            asked = f"/v1/runs/{run_id}/events?starting_after={after}&limit=2"
            page = (await http.get(asked)).json()
            assert 1 <= len(page["events"]) <= 2
            found += page["events"]
            after, more = page["events"][-1]["sequence_number"], page["has_more"]
        events = [event async for event in engine.manager.events(run_id)]
        assert found == [json.loads(event.model_dump_json()) for event in events]
        assert found[-1]["run"]["output"] == "Blue."  # type: ignore[index]
        wins = {"Last-Event-ID": "3:1.1.17"}
        page = (await http.get(f"/v1/runs/{run_id}/events", headers=wins)).json()
        assert page["events"][0]["sequence_number"] == 4


async def test_runs_are_listed_by_what_they_are(engine: Engine, http: httpx2.AsyncClient) -> None:
    engine.model.script([text("One."), text("Two."), text("Three.")])
    session = f"list-{engine.task_queue}"
    async with engine.serving(AGENT):
        for _ in range(3):
            await engine.run("painter", session_id=session)

        async def listed() -> bool:
            found = await http.get(f"/v1/runs?session_id={session}&status=completed")
            return len(found.json()["runs"]) == 3

        await soon(listed)
        asked = {"session_id": session, "agent": "painter", "top_level": True, "limit": 2}
        first = (await http.get("/v1/runs", params=asked)).json()
        rest = (await http.get("/v1/runs", params=asked | {"cursor": first["next_cursor"]})).json()
        ids = [each["run_id"] for each in (*first["runs"], *rest["runs"])]
        assert len(ids) == len(set(ids)) == 3
        none = await http.get("/v1/runs", params=asked | {"created_after": "2100-01-01T00:00:00Z"})
        assert none.json()["runs"] == []
        by_session = await http.get(f"/v1/sessions/{session}/runs")
        assert {each["run_id"] for each in by_session.json()["runs"]} == set(ids)


async def test_a_run_is_paused_told_something_limited_and_goes_on(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Blue.").hold(gate), text("Sky blue.")])
    async with engine.serving(AGENT):
        run_id = await engine.start("painter")
        await gate.reached
        paused = await http.post(f"/v1/runs/{run_id}/pause", json={"reason": "Lunch."})
        assert paused.json()["pause_reason"] == "Lunch."
        said = await http.post(
            f"/v1/runs/{run_id}/messages", json={"text": "More exactly?", "message_id": "m1"}
        )
        assert said.json()["follow_ups"][0]["text"] == "More exactly?"
        raised = await http.patch(f"/v1/runs/{run_id}", json={"limits": {"max_turns": 33}})
        assert raised.json()["limits"]["max_turns"] == 33
        gate.open()
        needs_person = await http.get(f"/v1/runs/{run_id}/wait?timeout_s=60")
        assert needs_person.status_code == 200
        assert needs_person.json()["waiting_on"]["type"] == "pause"
        assert (await http.post(f"/v1/runs/{run_id}/unpause")).status_code == 200
        assert (await engine.ended(run_id)).output == "Sky blue."
        late = await http.post(f"/v1/runs/{run_id}/messages", json={"text": "And then?"})
        assert (late.status_code, late.json()["code"]) == (409, "run_already_terminal")
        assert late.json()["message"]["text"] == "And then?"


async def test_a_run_is_cancelled_resumed_and_forked(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script(
        [
            tool_calls(call("look", {"what": "It"})),
            text("Never.").hold(gate),
            text("Blue."),
            text("Forked."),
        ]
    )
    async with engine.serving(AGENT):
        run_id = await engine.start("painter")
        await gate.reached
        told = await http.post(f"/v1/runs/{run_id}/cancel", json={"reason": "Enough."})
        assert told.status_code == 200
        run = await engine.ended(run_id)
        assert (run.status, run.cancel and run.cancel.reason) == ("cancelled", "Enough.")
        again = await http.post(f"/v1/runs/{run_id}/cancel")
        assert again.json()["status"] == "cancelled"
        resumed = await http.post(f"/v1/runs/{run_id}/resume", json={"limits": {"max_turns": 7}})
        assert (resumed.status_code, resumed.headers["location"]) == (202, f"/v1/runs/{run_id}")
        assert (await engine.ended(run_id)).output == "Blue."
        refused = await http.post(f"/v1/runs/{run_id}/resume")
        assert (refused.status_code, refused.json()["code"]) == (409, "run_not_resumable")
        forked = await http.post(f"/v1/runs/{run_id}/fork", json={"step": 2, "message": "Else?"})
        assert forked.status_code == 202
        assert forked.headers["location"] == f"/v1/runs/{forked.json()['run_id']}"
        assert (await engine.ended(forked.json()["run_id"])).output == "Forked."


async def test_several_runs_are_cancelled_at_once_and_each_is_accounted_for(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gates = [Gate(timeout_s=60) for _ in range(3)]
    engine.model.script([text("Never.").hold(gate) for gate in gates])
    agent = Agent(name=f"agent-{engine.task_queue}", tools=[look])
    async with engine.serving(agent):
        ids = [await engine.start(agent.name) for _ in range(3)]
        for gate in gates:
            await gate.reached
        told = await http.post("/v1/runs/cancel", json={"run_ids": [ids[0], "run_none"]})
        first, missing = told.json()["runs"]
        assert (first["run_id"], first["error"]) == (ids[0], None)
        assert missing["error"]["code"] == "run_not_found"
        await engine.ended(ids[0])

        async def all_listed() -> bool:
            asked = {"filter": {"agent": agent.name}, "reason": "All of them."}
            told = await http.post("/v1/runs/cancel", json=asked)
            return {each["run_id"] for each in told.json()["runs"]} >= set(ids[1:])

        await soon(all_listed)
        for run_id in ids:
            assert (await engine.ended(run_id)).status == "cancelled"
        for neither in ({}, {"run_ids": ["a"], "filter": {}}, {"run_ids": ["session/a"]}):
            assert (await http.post("/v1/runs/cancel", json=neither)).status_code == 422
