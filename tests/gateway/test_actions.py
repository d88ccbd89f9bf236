"""What waits for a person, decided over HTTP."""

import httpx2
import pytest

from perdure import Agent, ask_user
from tests.gateway.test_runs import paint
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls

AGENT = Agent(name="asker", tools=[paint, ask_user])


async def waiting(engine: Engine, http: httpx2.AsyncClient, *calls: object) -> tuple[str, str]:
    engine.model.script([tool_calls(*calls), text("Done.")])  # type: ignore[arg-type]
    start = {"agent": "asker", "input": "Go.", "wait": True, "wait_timeout_s": 60}
    run = (await http.post("/v1/runs", json=start)).json()
    return run["run_id"], run["waiting_on"]["action_ids"][0]


async def test_an_action_is_found_and_approved_with_other_arguments(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    async with engine.serving(AGENT):
        run_id, action_id = await waiting(engine, http, call("paint", {"what": "it"}))

        async def listed() -> bool:
            found = (await http.get("/v1/actions?agent=asker&limit=100")).json()["actions"]
            return action_id in [each["action"]["action_id"] for each in found]

        await soon(listed)
        path = f"/v1/runs/{run_id}/actions"
        approval = {"action_id": action_id, "decision": "approve", "arguments": {"what": "her"}}
        assert (await http.post(path, json=approval)).status_code == 200
        assert (await http.post(path, json=approval)).status_code == 200, "the same counts once"
        late = await http.post(path, json={"action_id": action_id, "decision": "reject"})
        assert (late.status_code, late.json()["code"]) == (409, "action_already_resolved")
        run = await engine.ended(run_id)
    (made,) = run.tool_calls
    assert (made.result or "").endswith("her is painted.")
    assert made.action is not None
    assert made.action.resolution is not None
    assert made.action.resolution.by == "anonymous"


async def test_a_question_is_answered(engine: Engine, http: httpx2.AsyncClient) -> None:
    async with engine.serving(AGENT):
        asked = call("ask_user", {"question": "Which?"})
        run_id, action_id = await waiting(engine, http, asked)
        path = f"/v1/runs/{run_id}/actions"
        answer = {"action_id": action_id, "decision": "answer", "answer": "This one."}
        assert (await http.post(path, json=answer)).status_code == 200
        assert "This one." in ((await engine.ended(run_id)).tool_calls[0].result or "")


UNFIT = {
    "no decision": {"action_id": "a"},
    "another decision": {"action_id": "a", "decision": "maybe"},
    "by somebody else": {"action_id": "a", "decision": "approve", "by": "the boss"},
    "an answer to approve": {"action_id": "a", "decision": "approve", "answer": "yes"},
    "no answer": {"action_id": "a", "decision": "answer"},
    "a note beside an answer": {
        "action_id": "a",
        "decision": "answer",
        "answer": "x",
        "note": "y",
    },
    "arguments to reject": {"action_id": "a", "decision": "reject", "arguments": {}},
}


@pytest.mark.parametrize("case", UNFIT)
async def test_a_decision_that_makes_no_sense_is_refused(
    case: str, refusing: httpx2.AsyncClient
) -> None:
    answer = await refusing.post("/v1/runs/run_none/actions", json=UNFIT[case])
    assert answer.status_code == 422
    assert answer.json()["code"] in ("invalid_request", "unsupported_parameter")


async def test_who_decides_for_no_run_or_no_action_is_told_so(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    decision = {"action_id": "none", "decision": "approve"}
    missing = await http.post("/v1/runs/run_none/actions", json=decision)
    assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")
    engine.model.script([text("Hi.")])
    async with engine.serving(AGENT):
        run = await engine.run("asker")
        missing = await http.post(f"/v1/runs/{run.run_id}/actions", json=decision)
        assert (missing.status_code, missing.json()["code"]) == (404, "action_not_found")
