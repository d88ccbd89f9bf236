"""The audit log: a line for each change and each attempt, and nothing that is secret."""

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.api_keys import KeyFile
from perdure.gateway.audit import MOST_CHARS, Audit
from perdure.gateway.rates import Rates
from perdure.runs.errors import ConfigurationError
from tests.gateway.security import matrix
from tests.gateway.security.checks import NO_KEY, basic, bearer, speaking
from tests.gateway.security.conftest import MakeSettings
from tests.gateway.security.small import create_app

START = {"agent": "a", "input": "hi"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_each_change_is_one_line(
    keys: KeyFile, settings: MakeSettings, tmp_path: Path
) -> None:
    key, known = keys.create("ci", ["write", "approve"], tenant="acme")
    async with speaking(create_app(settings()), **bearer(key)) as client:
        await client.get("/v1/runs/run_1")
        await client.post("/v1/runs", json=START)
        await client.post("/v1/runs/run_1/cancel")
        await client.post("/v1/runs/umbrella:run_2/cancel")
        decision = {"action_id": "act_1", "verdict": "approve"}
        await client.post("/v1/runs/run_1/actions", json=decision)
        await client.delete("/v1/runs/run_1")
        await client.post("/v1/broken")
        await client.post("/v1/nowhere", json={})
        await client.post("/v1/runs", content=b"x", headers={"Content-Type": "text/plain"})
        await client.post("/v1/runs", json=START, headers=bearer(NO_KEY))
    told = lines(tmp_path / "audit.log")
    by = {"audit": 1, "caller": "ci", "key_id": known.id, "tenant": "acme", "client": "127.0.0.1"}
    assert all(each.pop("at").endswith("+00:00") for each in told)
    run, cancel = "acme:run_1", "/v1/runs/{run_id}/cancel"
    post = by | {"method": "POST"}
    nobody = {name: post[name] for name in ("audit", "client", "method")}
    assert told == [
        post | {"route": "/v1/runs", "location": f"/v1/runs/{run[:-1]}3", **done(202, "ok")},
        post | {"route": cancel, "run_id": run, **done(200, "ok")},
        post | {"route": cancel, "run_id": "acme:umbrella:run_2", **done(404, "run_not_found")},
        post
        | {"route": "/v1/runs/{run_id}/actions", "run_id": run, **done(200, "ok")}
        | {"action_id": "act_1", "decision": "approve"},
        by
        | {"method": "DELETE", "route": "/v1/runs/{run_id}", "run_id": run}
        | done(403, "forbidden"),
        post | {"route": "/v1/broken", **done(500, "internal")},
        post | {"path": "/v1/nowhere", **done(404, "not_found")},
        post | {"path": "/v1/runs", **done(415, "unsupported_media_type")},
        nobody | {"path": "/v1/runs", **done(401, "unauthorized")},
    ]
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def done(status: int, code: str) -> dict[str, Any]:
    return {"status": status, "code": code}


async def test_who_floods_the_gateway_does_not_flood_the_log(
    keys: KeyFile, settings: MakeSettings, tmp_path: Path
) -> None:
    keys.create("ci", ["write"])
    app = create_app(settings())
    app.state.access.failures = Rates(2)
    async with speaking(app) as client:
        for _ in range(9):
            await client.post("/v1/runs", json=START)
    assert len(lines(tmp_path / "audit.log")) == 2


def test_nothing_that_is_given_begins_another_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = 'a\r\n{"audit": 1}\x1b[2J\u2028\u202e\x00"' + "x" * 1_000
    for path in (tmp_path / "audit.log", None):
        Audit(path).write({"path": given, "status": 200, "none": None})
    [line] = (tmp_path / "audit.log").read_text().splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["path"] == given[:MOST_CHARS]
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_log_that_cannot_be_written_is_noticed_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be written"):
        Audit(tmp_path / "no" / "audit.log")


async def test_no_key_is_in_any_answer_or_log(
    keys: KeyFile,
    settings: MakeSettings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    key, _ = keys.create("ci", ["read"])
    other, known = keys.create("gone", ["read"])
    keys.revoke(known.id)
    shown = ""
    app = create_app(settings())
    async with speaking(app) as client:
        for each in (key, other):
            for headers in (bearer(each), basic(each), {"Authorization": each}):
                for method, path in (
                    ("POST", "/v1/runs"),
                    ("GET", "/v1/x"),
                    ("POST", "/v1/broken"),
                ):
                    got = await client.request(
                        method, path, headers=headers, json=START, params={"key": each}
                    )
                    shown += got.text + str(got.headers)
            # In a path, it is nobody's id; the log does not repeat it.
            got = await client.post(f"/v1/runs/{each}/cancel", headers=bearer(key))
            shown += str(got.headers)
    log = (tmp_path / "audit.log").read_text()
    assert "pdk_***" in log
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("perdure")]
    everything = "".join([shown, log, *ours, *capsys.readouterr(), keys.path.read_text()])
    for each in (key, other):
        secret = each.rpartition("_")[2]
        assert not [form for form in matrix.forms(secret) if form in everything]
