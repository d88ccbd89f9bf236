"""`perdure config show`: everything that is set, from where, and no secret (P34)."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from perdure.client.cli.app import app
from perdure.client.configuration import masked_url
from perdure.engine.settings import Settings
from tests.harness.canaries import CANARY, assert_absent

QUOTED = quote(CANARY, safe="")
SECRET = {
    "OPENAI_API_KEY": CANARY,
    "OPENAI_BASE_URL": f"https://user:{QUOTED}@provider.test/v1?api-key={QUOTED}&region=eu",
    "PERDURE_SECRET_BANK": CANARY,
    "PERDURE_REDIS_URL": f"redis://:{QUOTED}@redis.test:6379/0",
    "PERDURE_TRACE_URL": f"https://{QUOTED}@traces.test/?token={QUOTED}&run={{run_id}}",
    "PERDURE_CORS_ORIGINS": f"https://x:{QUOTED}@app.test",
    "PERDURE_MAXSTEPS": CANARY,
    "TEMPORAL_API_KEY": CANARY,
    "TEMPORAL_GRPC_META_TOKEN": CANARY,
    "TEMPORAL_TLS_CLIENT_KEY_DATA": CANARY,
    "TEMPORAL_TLS_CLIENT_CERT_DATA": CANARY,
}


def shown(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["config", "show", *arguments])
    return result.exit_code, result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.test:7233")
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_no_secret_is_shown_in_any_form(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    code, text = shown(*arguments)
    assert code == 0
    assert_absent(text, CANARY)
    for told in ("provider.test/v1", "region=eu", "traces.test", "{run_id}", "app.test", "bank"):
        assert told in text
    assert "PERDURE_MAXSTEPS (environment) is no setting. Did you mean PERDURE_MAX_STEPS?" in text


MALFORMED = {
    "PERDURE_RATE_LIMITS": CANARY,
    "PERDURE_PRICES": CANARY,
    "PERDURE_SECRETS": CANARY,
    "PERDURE_HTTP_PORT": CANARY,
    "PERDURE_WORKER_ROLE": CANARY,
    "PERDURE_GRACE_S": CANARY,
    "PERDURE_TRACE_URL": f"https://x:{CANARY}@traces.test",
    "TEMPORAL_ADDRESS": CANARY,
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_what_is_malformed_is_named_and_not_shown(
    name: str, arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, MALFORMED[name])
    code, text = shown(*arguments)
    assert code == 6
    assert ("address of Temporal" if name == "TEMPORAL_ADDRESS" else name) in text
    assert_absent(text, CANARY)


def test_each_setting_says_where_it_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "perdure.toml").write_text('task_queue = "q1"\nlog_level = "error"\nmax_steps = 3')
    (folder / ".env").write_text("PERDURE_LOG_LEVEL=debug\nPERDURE_MAX_STEPS=4\n")
    monkeypatch.setenv("PERDURE_MAX_STEPS", "5")
    (folder / "temporal.toml").write_text(
        '[profile.cloud]\naddress = "cloud.test:7233"\nnamespace = "acme"\n'
        'api_key = "k"\nadress = "typo"'
    )
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "temporal.toml")
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    code, text = shown("--json")
    assert code == 0
    told = json.loads(text)
    found = {each["name"]: (each["value"], each["source"]) for each in told["settings"]}
    assert found.keys() == Settings.model_fields.keys()
    assert found["task_queue"] == ("q1", "perdure.toml")
    assert found["log_level"] == ("debug", ".env")
    assert found["max_steps"] == (5, "environment")
    assert found["grace_s"] == (10.0, "default")
    assert told["file"] == "perdure.toml"
    assert told["temporal"] == {
        "address": "cloud.test:7233",
        "namespace": "acme",
        "profile": "cloud",
        "profile_file": "temporal.toml",
        "tls": "on",
        "api_key_is_set": True,
    }
    assert told["warnings"] == [
        "temporal.toml has a key that Temporal does not know, at line 5, column 1."
    ]
    assert "temporal.toml" in shown()[1]


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        pytest.param("https://host/v1", "https://host/v1", id="nothing"),
        pytest.param("https://u:p@host:1/v1", "https://***@host:1/v1", id="user"),
        pytest.param("https://u:p@a@host/v1", "https://***@host/v1", id="two-ats"),
        pytest.param("https://h/?X-Token=t&a=1", "https://h/?X-Token=***&a=1", id="query"),
        pytest.param("https://h/#access_token=t", "https://h/#access_token=***", id="fragment"),
        pytest.param("https://[u:p@host", "***", id="no-url"),
        pytest.param("plain", "plain", id="text"),
    ],
)
def test_urls_are_masked(url: str, masked: str) -> None:
    assert masked_url(url) == masked
