"""Whoever has a tenant sees that tenant's Runs and Sessions only, wherever an id stands."""

import httpx2
import pytest

from perdure import Agent
from perdure.gateway import access
from perdure.gateway.access import EVERYTHING, Caller
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import text

AGENT = Agent(name="tenant-agent")


@pytest.fixture
def tenancy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All who call are of the tenant `tenancy`."""
    monkeypatch.setattr(access, "ANYBODY", Caller("anna", EVERYTHING, "tenancy"))


async def test_what_a_tenant_starts_is_theirs_and_nothing_else_is_seen(
    engine: Engine, http: httpx2.AsyncClient, tenancy: None
) -> None:
    engine.model.script([text("Other."), text("One."), text("Two."), text("Three.")])
    session = f"ours-{engine.task_queue}"
    async with engine.serving(AGENT):
        other = await engine.run("tenant-agent", session_id=session)
        start = {"agent": "tenant-agent", "input": "Go.", "wait": True}
        own = (await http.post("/v1/runs", json=start)).json()["run_id"]
        key = {"Idempotency-Key": session}
        keyed = (await http.post("/v1/runs", json=start, headers=key)).json()["run_id"]
        again = await http.post("/v1/runs", json=start, headers=key)
        assert again.json()["run_id"] == keyed
        talked = (await http.post("/v1/runs", json=start | {"session_id": session})).json()
        assert talked["session_id"] == f"tenancy:{session}"
        ours = {own, keyed, talked["run_id"]}
        assert all(each.startswith("tenancy:run_") for each in ours)

        async def listed() -> bool:
            found = (await http.get("/v1/runs?agent=tenant-agent&limit=100")).json()["runs"]
            ids = {each["run_id"] for each in found}
            assert all(each.startswith("tenancy:") for each in ids)
            return ours <= ids

        await soon(listed)
        sessions = (await http.get("/v1/sessions?limit=100")).json()["sessions"]
        assert {each["session_id"] for each in sessions} <= {f"tenancy:{session}"}
        # Named without the tenant, as well as with it.
        assert (await http.get(f"/v1/runs/{own.removeprefix('tenancy:')}")).status_code == 200
        assert (await http.get(f"/v1/runs/{own}")).status_code == 200
        for method, path in (
            ("GET", ""),
            ("GET", "/wait"),
            ("GET", "/events"),
            ("GET", "/steps"),
            ("GET", "/tree"),
            ("GET", "/result/1"),
            ("POST", "/cancel"),
            ("POST", "/resume"),
            ("POST", "/fork"),
            ("DELETE", ""),
        ):
            answer = await http.request(method, f"/v1/runs/{other.run_id}{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found"), path
        told = await http.post("/v1/runs/cancel", json={"run_ids": [other.run_id]})
        assert told.json()["runs"][0]["error"]["code"] == "run_not_found"
        fork = {"new_session_id": "x", "run_id": other.run_id}
        assert (await http.post(f"/v1/sessions/{session}/fork", json=fork)).status_code == 404
        foreign = await http.get(f"/v1/runs?session_id=other:{session}")
        assert foreign.json()["runs"] == []
