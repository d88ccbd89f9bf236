"""Who gets in, who may do what, and whose ids they see; on every route there is."""

import pytest

from perdure.engine.api_keys import INCLUDED, KeyFile
from perdure.gateway.access import ANYBODY, Caller
from perdure.gateway.rates import Rates
from tests.gateway.security import checks, matrix
from tests.gateway.security.checks import basic, bearer, speaking
from tests.gateway.security.conftest import PAST, MakeSettings
from tests.gateway.security.small import create_app


async def test_only_health_answers_without_a_valid_key(
    keys: KeyFile, settings: MakeSettings
) -> None:
    valid, _ = keys.create("ops", ["admin"])
    expired, _ = keys.create("old", ["admin"], expires_at=PAST)
    revoked, known = keys.create("gone", ["admin"])
    keys.revoke(known.id)
    others = {"expired": expired, "revoked": revoked, "cut": valid[:-1], "longer": valid + "x"}
    app = create_app(settings())
    app.state.access.failures = Rates(1_000_000)
    made = await checks.only_health_is_open(app, others, valid)
    assert made == (len(matrix.routes(app)) - 2) * 10
    paths = {route.path for route in matrix.routes(app)}
    assert paths >= {"/", "/openapi.json", "/v1/runs/{run_id}/events", matrix.NOWHERE, "/healthz"}


async def test_every_route_wants_its_scope(keys: KeyFile, settings: MakeSettings) -> None:
    app = create_app(settings())
    made = {scope: keys.create(scope, [scope])[0] for scope in INCLUDED}
    assert await checks.every_route_wants_its_scope(app, made) > 40


def test_every_route_but_health_names_its_scope(settings: MakeSettings) -> None:
    app = create_app(settings())
    free = {route.path for route in matrix.routes(app) if route.scope is None}
    assert free == {"/healthz", "/readyz", "/openapi.json", matrix.NOWHERE}


async def test_a_foreign_id_is_an_unknown_id_wherever_it_stands(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("theirs", ["admin"], tenant="umbrella")
    own = {"run_id": "umbrella:run_2", "session_id": "umbrella:talk"}
    foreign = {"run_id": "acme:run_1", "session_id": "acme:talk"}
    app = create_app(settings())
    assert await checks.foreign_ids_are_unknown(app, key, own, foreign) == 11
    async with speaking(app, **bearer(key)) as client:
        assert (await client.get("/v1/runs")).json() == ["umbrella:run_2"]
        for run_id in ("run_2", "umbrella:run_2"):
            assert (await client.get(f"/v1/runs/{run_id}")).json() == "umbrella:run_2"


async def test_who_has_no_tenant_sees_all(keys: KeyFile, settings: MakeSettings) -> None:
    key, _ = keys.create("ops", ["read"])
    async with speaking(create_app(settings()), **bearer(key)) as client:
        assert (await client.get("/v1/runs")).json() == ["acme:run_1", "umbrella:run_2"]
        assert (await client.get("/v1/runs/acme:run_1")).status_code == 200


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("run_1", "acme:run_1"),
        ("acme:run_1", "acme:run_1"),
        ("umbrella:run_2", "acme:umbrella:run_2"),
        ("acme", "acme:acme"),
        ("acme-2:run", "acme:acme-2:run"),
        ("session/umbrella:talk", "acme:session/umbrella:talk"),
        ("", "acme:"),
    ],
)
def test_an_id_can_name_nothing_of_another_tenant(given: str, full: str) -> None:
    caller = Caller("ci", frozenset({"read"}), tenant="acme")
    assert caller.scoped(given) == full
    assert caller.scoped(full) == full
    assert ANYBODY.scoped(given) == given


async def test_keys_are_taken_from_either_scheme_and_any_user_name(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("ops", ["read"])
    async with speaking(create_app(settings())) as client:
        for headers in (bearer(key), basic(key), {"Authorization": f"bearer  {key}"}):
            assert (await client.get("/v1/runs", headers=headers)).status_code == 200
        twice = [("Authorization", f"Bearer {key}"), ("Authorization", "Bearer x")]
        assert (await client.get("/v1/runs", headers=twice)).status_code == 401


async def test_a_key_is_revoked_without_a_restart(keys: KeyFile, settings: MakeSettings) -> None:
    app = create_app(settings())
    key, known = keys.create("ops", ["read"])
    async with speaking(app, **bearer(key)) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        keys.revoke(known.id)
        assert (await client.get("/v1/runs")).status_code == 401


@pytest.mark.parametrize("how", ["missing", "broken", "writable", "a folder", "two of one id"])
async def test_keys_that_cannot_be_read_let_nobody_in(
    how: str, keys: KeyFile, settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    key, _ = keys.create("ops", ["admin"])
    app = create_app(settings())
    async with speaking(app, **bearer(key)) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        whole = keys.path.read_text()
        match how:
            case "broken":
                keys.path.write_text(whole[:-20])
            case "writable":
                keys.path.chmod(0o666)
            case "two of one id":
                one = whole[whole.index("[") + 1 : whole.rindex("]")]
                keys.path.write_text(whole.replace(one, f"{one},{one}"))
            case _:
                keys.path.unlink()
        if how == "a folder":
            keys.path.mkdir()
        answer = await client.get("/v1/runs")
        assert (answer.status_code, answer.json()["code"]) == (503, "configuration")
        assert str(keys.path) not in answer.text
        assert (await client.get("/healthz")).status_code == 200
        assert "Nobody is let in. The file of API keys can't be used" in caplog.text
        if how == "a folder":
            keys.path.rmdir()
        keys.path.write_text(whole)
        keys.path.chmod(0o600)
        assert (await client.get("/v1/runs")).status_code == 200


async def test_without_the_guard_nobody_gets_in(keys: KeyFile, settings: MakeSettings) -> None:
    app = create_app(settings())
    app.user_middleware.clear()
    async with speaking(app) as client:
        assert (await client.get("/v1/runs")).status_code == 401
