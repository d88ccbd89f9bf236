"""Sessions over HTTP, the agents that there are, and health."""

import httpx2
import pytest

from perdure import Agent, Limits
from perdure.client.manager import RunManager
from perdure.engine.connect import connect
from tests.conftest import free_port
from tests.gateway.conftest import gateway_of, http_client
from tests.gateway.test_runs import look, paint
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import text

AGENT = Agent(name="talker", description="Talks.", tools=[look, paint], limits=Limits(max_turns=9))


async def test_a_session_is_begun_changed_read_forked_and_cleared(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.script([text("Hello."), text("Again.")])
    session = f"talk-{engine.task_queue}"
    path = f"/v1/sessions/{session}"
    async with engine.serving(AGENT):
        for_ever = await http.patch(path, json={"settings": {"idle_s": 1e300}})
        assert (for_ever.status_code, for_ever.json()["code"]) == (422, "invalid_request")
        settings = {"max_tokens": 9_000, "max_queued": 3}
        given = {"settings": settings, "variables": {"id": 2**63 + 1}}
        changed = await http.patch(path, json=given)
        assert changed.json()["settings"]["max_tokens"] == 9_000
        assert (await http.get(f"{path}/variables")).json() == {"variables": {"id": 2**63 + 1}}
        start = {"agent": "talker", "input": "Hi.", "session_id": session}
        run = (await http.post("/v1/runs", json=start | {"wait": True})).json()
        said = (await http.get(f"{path}/messages")).json()["messages"]
        assert [each["content"] for each in said] == ["Hi.", "Hello."]
        assert (await http.get(path)).json()["runs"] == 1
        forked = await http.post(
            f"{path}/fork", json={"new_session_id": f"{session}-2", "run_id": run["run_id"]}
        )
        assert forked.status_code == 201
        assert forked.headers["location"] == f"/v1/sessions/{session}-2"
        assert forked.json()["messages"] == 2
        assert (await http.post(f"{path}/clear")).json()["messages"] == 0

        async def listed() -> bool:
            found = (await http.get("/v1/sessions?limit=100")).json()["sessions"]
            return {session, f"{session}-2"} <= {each["session_id"] for each in found}

        await soon(listed)
        taken = await http.post(f"{path}/fork", json={"new_session_id": f"{session}-2"})
        assert taken.status_code == 422
        await engine.rest(session)
    missing = await http.get("/v1/sessions/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "session_not_found")


async def test_the_workers_tell_which_agents_there_are(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    async with engine.serving(AGENT):
        (told,) = (await http.get("/v1/agents")).json()["agents"]
    assert (told["name"], told["description"]) == ("talker", "Talks.")
    assert told["limits"]["max_turns"] == 9
    assert told["model"] == "gpt-5-mini"
    tools = {each["name"]: (each["effect"], each["approval"]) for each in told["tools"]}
    assert tools == {"look": ("read", None), "paint": ("unsafe", "always")}


async def test_without_a_worker_agents_are_unknown_and_starts_refused_but_runs_are_read(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    engine.model.script([text("Hello.")])
    async with engine.serving(AGENT):
        run = await engine.run("talker")
    unknown = await http.get("/v1/agents")
    assert (unknown.status_code, unknown.json()["code"]) == (503, "no_worker")
    assert unknown.headers["retry-after"] == "5"
    assert (await http.get(f"/v1/runs/{run.run_id}")).json()["output"] == "Hello."
    assert (await http.get("/readyz")).json() == {"status": "ok"}


async def test_a_gateway_is_up_before_temporal_is_and_says_that_it_is_not_ready(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{free_port()}")
    manager = RunManager(await connect(engine.settings, lazy=True), engine.task_queue)
    async with (
        gateway_of(manager, engine.settings) as gateway,
        http_client(gateway.url) as http,
    ):
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        red = await http.get("/readyz")
        assert (red.status_code, red.json()["status"]) == (503, "failing")
        refused = await http.get("/v1/runs/run_1")
        assert (refused.status_code, refused.json()["code"]) == (503, "engine_unavailable")
