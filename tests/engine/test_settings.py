"""Settings that are wrong are named, with what is wrong."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import RateLimit
from tests.harness.processes import output


def test_rate_limits_are_read_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = '{"gpt-5-mini": {"requests_per_minute": 500}, "*": {"tokens_per_minute": 9}}'
    monkeypatch.setenv("PERDURE_RATE_LIMITS", limits)
    assert Settings.configured().rate_limits == {
        "gpt-5-mini": RateLimit(requests_per_minute=500),
        "*": RateLimit(tokens_per_minute=9),
    }
    monkeypatch.setenv("PERDURE_RATE_LIMITS", "")
    assert Settings.configured().rate_limits is None


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("RATE_LIMITS", "{", "PERDURE_RATE_LIMITS: it is not JSON"),
        ("RATE_LIMITS", "[]", "PERDURE_RATE_LIMITS: Input should be a valid dictionary"),
        ("RATE_LIMITS", '{"m": {"rpm": 5}}', "PERDURE_RATE_LIMITS m rpm: Extra inputs"),
        ("RATE_LIMITS", '{"m": {"requests_per_minute": 0}}', "m requests_per_minute: Input should"),
        ("GRACE_S", "-1", "PERDURE_GRACE_S: Input should be greater"),
        ("HEALTH_PORT", "99999", "PERDURE_HEALTH_PORT: Input should be less"),
        ("BUILD_ID", "3", "PERDURE_DEPLOYMENT_NAME and PERDURE_BUILD_ID go together"),
    ],
)
def test_a_setting_that_is_wrong_is_named(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PERDURE_{name}", value)
    with pytest.raises(ConfigurationError, match=told):
        Settings.configured()


@pytest.mark.parametrize("command", ["worker", "list"])
async def test_commands_refuse_settings_that_are_wrong(command: str) -> None:
    code, _, error = await output(command, env={"PERDURE_RATE_LIMITS": "{"})
    assert code == 6
    assert error.startswith("Error (configuration): PERDURE_RATE_LIMITS: it is not JSON")


def test_secrets_of_tools_come_from_the_environment_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("PERDURE_SECRET_BANK=of the file\nPERDURE_SECRET_SHOP=s1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_SECRET_BANK", "of the environment")
    monkeypatch.setenv("PERDURE_SECRET_Git_Hub", '{"looks": "like JSON"}')
    monkeypatch.setenv("PERDURE_SECRET_EMPTY", "")
    settings = Settings.configured()
    assert settings.secret_values == {
        "bank": "of the environment",
        "shop": "s1",
        "git_hub": '{"looks": "like JSON"}',
    }
    assert "of the" not in repr(settings)
    assert "of the" not in settings.model_dump_json()


def test_there_are_no_secrets_unless_some_are_set() -> None:
    assert Settings.configured().secret_values == {}
    assert Settings(secrets={"bank": SecretStr("t1")}).secret_values == {"bank": "t1"}
