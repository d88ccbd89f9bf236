"""Runs and Sessions that are deleted over HTTP."""

import httpx2

from perdure import Agent
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls

HELPER = Agent(name="helper")
AGENT = Agent(name="deleter", tools=[HELPER.as_tool()])


async def test_what_is_deleted_is_stopped_first_and_gone_then(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script(
        [text("Kept."), tool_calls(call("helper", {"input": "x"})), text("Never.").hold(gate)]
    )
    session = f"deleted-{engine.task_queue}"
    async with engine.serving(AGENT, HELPER):
        kept = await engine.run("deleter", session_id=session)
        run_id = await engine.start("deleter")
        await gate.reached
        deleted = await http.delete(f"/v1/runs/{run_id}")
        assert deleted.status_code == 200, deleted.text
        assert deleted.json() == {"run_ids": [run_id, f"{run_id}.2"]}
        deleted = await http.delete(f"/v1/sessions/{session}")
        assert deleted.json() == {"run_ids": [kept.run_id]}

        async def is_gone() -> bool:
            found = [await http.get(f"/v1/runs/{each}") for each in (run_id, f"{run_id}.2")]
            return {each.status_code for each in found} == {404}

        await soon(is_gone, 100)
        missing = await http.delete(f"/v1/runs/{run_id}")
        assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")
