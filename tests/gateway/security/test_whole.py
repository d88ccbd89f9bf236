"""The same checks on the gateway itself, with Runs and Sessions of two tenants."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI

from perdure import Agent
from perdure.client.launch import asked_for, start
from perdure.client.listing import RunFilter
from perdure.engine.api_keys import INCLUDED, KeyFile
from perdure.engine.settings import Settings
from perdure.gateway.app import create_app
from perdure.gateway.rates import Rates
from tests.gateway.security import checks, matrix
from tests.gateway.security.checks import bearer, speaking
from tests.gateway.security.conftest import PAST
from tests.harness.engine import Engine
from tests.harness.scripted_openai import text

OPEN = {"/healthz", "/readyz", matrix.NOWHERE}
TAKES_ANY = (
    ("GET", "/v1/sessions/{session_id}/runs"),  # an empty list
    ("PATCH", "/v1/sessions/{session_id}"),  # one that there is not begins with it
    ("POST", "/v1/runs"),  # and with this
)


@dataclass
class Two:
    """Two tenants, each with a Run that has ended in a Session."""

    app: FastAPI
    keys: KeyFile
    acme: dict[str, str]
    umbrella: dict[str, str]


@pytest.fixture
async def two(engine: Engine, tmp_path: Path) -> AsyncIterator[Two]:
    keys = KeyFile(tmp_path / "keys.json")
    settings = Settings(api_keys=keys.path, audit_log=tmp_path / "audit.log")
    app = create_app(engine.manager, settings)
    app.state.access.failures = app.state.access.rates = Rates(1_000_000)
    engine.model.script([text("Done."), text("Done.")])
    ids = []
    async with engine.serving(Agent(name="speaker", instructions="Speak.")):
        for tenant in ("acme", "umbrella"):
            session = f"{tenant}:{engine.task_queue}"
            options = asked_for("speaker", "Go.", session, id_prefix=f"{tenant}:")
            begun = await start(engine.manager.client, engine.task_queue, options)
            await engine.manager.wait(begun.run_id)
            ids.append({"run_id": begun.run_id, "session_id": session})
        yield Two(app, keys, *ids)


async def test_only_health_answers_without_a_valid_key(two: Two) -> None:
    """P32."""
    valid, _ = two.keys.create("ops", ["admin"])
    expired, _ = two.keys.create("old", ["admin"], expires_at=PAST)
    revoked, known = two.keys.create("gone", ["admin"])
    two.keys.revoke(known.id)
    others = {"expired": expired, "revoked": revoked, "cut": valid[:-1]}
    assert await checks.only_health_is_open(two.app, others, valid) > 200
    assert {route.path for route in matrix.routes(two.app) if route.scope is None} == OPEN


async def test_every_route_wants_its_scope(two: Two) -> None:
    keys = {scope: two.keys.create(scope, [scope], tenant="none")[0] for scope in INCLUDED}
    assert await checks.every_route_wants_its_scope(two.app, keys) > 80


async def test_a_foreign_id_is_an_unknown_id_wherever_it_stands(two: Two) -> None:
    """SECU-01, P33."""
    key, _ = two.keys.create("theirs", ["admin"], tenant="umbrella")
    needed = {"agent": "speaker", "input": "Go.", "text": "Go on.", "verdict": "approved"}
    own, foreign = two.umbrella | needed, two.acme
    manager = two.app.state.manager
    session = manager.session(foreign["session_id"])
    before = await manager.get_run(foreign["run_id"]), await session.get()
    assert await checks.foreign_ids_are_unknown(two.app, key, own, foreign, TAKES_ANY) > 25
    assert (await manager.get_run(foreign["run_id"]), await session.get()) == before
    async with speaking(two.app, **bearer(key)) as client:
        for path in ("/v1/runs?limit=1000", "/v1/sessions?limit=1000", "/v1/actions?limit=1000"):
            assert '"acme:' not in (await client.get(path)).text


async def test_the_same_idempotency_key_is_another_one_for_each_tenant(
    two: Two, engine: Engine
) -> None:
    engine.model.script([text("Done."), text("Done.")])
    started = []
    for tenant in ("acme", "umbrella", "acme"):
        key, _ = two.keys.create("ci", ["write"], tenant=tenant)
        async with speaking(two.app, **bearer(key), **{"Idempotency-Key": "once"}) as client:
            asked = {"agent": "speaker", "input": "Go.", "wait": True}
            got = (await client.post("/v1/runs", json=asked)).json()
            assert got["run_id"].startswith(f"{tenant}:run_")
            started.append(got["run_id"])
    assert started[0] == started[2] != started[1]


async def test_who_has_no_tenant_sees_both(two: Two, engine: Engine) -> None:
    key, _ = two.keys.create("ops", ["read"])
    async with speaking(two.app, **bearer(key)) as client:
        for ids in (two.acme, two.umbrella):
            assert (await client.get(f"/v1/runs/{ids['run_id']}")).status_code == 200
    found = await engine.manager.list_runs(RunFilter(id_prefix="acme:"))
    assert all(each.run_id.startswith("acme:") for each in found.runs)
