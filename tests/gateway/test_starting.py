"""One start, however often it is asked for: idempotency keys and busy Sessions over HTTP."""

import asyncio
from collections import Counter

import httpx2

from perdure import Agent
from tests.gateway.conftest import Gateway, gateway_of, http_client
from tests.gateway.test_runs import paint
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, call, text, tool_calls

AGENT = Agent(name="starter", tools=[paint])
START = {"agent": "starter", "input": "Go."}


async def together(
    gateway: Gateway, other: Gateway, body: dict[str, object], headers: dict[str, str]
) -> list[httpx2.Response]:
    """Send one request fifty times at once, to two gateways."""
    async with http_client(gateway.url) as one, http_client(other.url) as two:
        asked = [each.post("/v1/runs", json=body, headers=headers) for each in (one, two) * 25]
        return await asyncio.gather(*asked)


async def test_of_fifty_starts_in_a_session_one_begins(engine: Engine, gateway: Gateway) -> None:
    """GATE-07 and P24, over two gateways."""
    gate = Gate(timeout_s=100)
    engine.model.script([text("Once.").hold(gate)])
    session = f"fifty-{engine.task_queue}"
    async with (
        engine.serving(AGENT),
        gateway_of(engine.manager, engine.settings) as other,
    ):
        answers = await together(gateway, other, START | {"session_id": session}, {})
        assert Counter(each.status_code for each in answers) == {202: 1, 409: 49}
        begun = next(each.json() for each in answers if each.status_code == 202)
        refused = [each.json() for each in answers if each.status_code == 409]
        assert {each["code"] for each in refused} == {"session_busy"}
        assert {each["active_run_id"] for each in refused} == {begun["run_id"]}
        gate.open()
        await engine.ended(begun["run_id"])
        report = await engine.rest(session)
    assert (report.runs, len(engine.model.requests)) == (1, 1)


async def test_fifty_starts_with_one_key_are_one_run(engine: Engine, gateway: Gateway) -> None:
    """GATE-07 and P24: with a Session and without, over two gateways."""
    engine.model.script([text("One."), text("Two.")])
    session = f"key-{engine.task_queue}"
    async with (
        engine.serving(AGENT),
        gateway_of(engine.manager, engine.settings) as other,
    ):
        for body in (START, START | {"session_id": session}):
            key = {"Idempotency-Key": f"{session}-{len(body)}"}
            answers = await together(gateway, other, body, key)
            assert {each.status_code for each in answers} == {202}
            assert len({each.json()["run_id"] for each in answers}) == 1
            replayed = [each.headers.get("idempotency-replayed") for each in answers]
            assert Counter(replayed) == {"true": 49, None: 1}
            await engine.ended(answers[0].json()["run_id"])
            async with http_client(gateway.url) as http:
                other_body = await http.post("/v1/runs", json=body | {"input": "!"}, headers=key)
                assert other_body.status_code == 409
                assert other_body.json()["code"] == "idempotency_conflict"
        await engine.rest(session)
    assert len(engine.model.requests) == 2


async def test_a_session_whose_run_waits_for_a_person_says_what_for(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.script([tool_calls(call("paint", {"what": "it"})), text("No."), text("Next.")])
    session = f"waits-{engine.task_queue}"
    async with engine.serving(AGENT):
        start = START | {"session_id": session, "wait": True, "wait_timeout_s": 60}
        begun = (await http.post("/v1/runs", json=start)).json()
        (action_id,) = begun["waiting_on"]["action_ids"]
        refused = await http.post("/v1/runs", json=start)
        assert refused.status_code == 409
        problem = refused.json()
        assert problem["code"] == "session_waiting_for_action"
        assert problem["action_ids"] == [action_id]
        assert problem["active_run_id"] == begun["run_id"]
        queued = await http.post(
            "/v1/runs", json=START | {"session_id": session, "on_busy": "enqueue"}
        )
        assert queued.json()["status"] == "pending"
        decision = {"action_id": action_id, "decision": "reject"}
        await http.post(f"/v1/runs/{begun['run_id']}/actions", json=decision)
        await engine.rest(session)
