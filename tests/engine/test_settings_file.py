"""Settings in `perdure.toml`: weaker than variables, and nothing in it is passed over."""

from pathlib import Path

import pytest

from perdure.engine.settings import Settings
from perdure.engine.settings_sources import Origins
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import RateLimit
from perdure.runs.usage import Price

WHOLE = """
task_queue = "of-the-file"
agents = ["acme.agents", "./more.py"]
openai_base_url = "http://file.test/v1"
max_steps = 7
[prices.small]
input = 1
output = 2
[rate_limits."*"]
requests_per_minute = 3
[providers.other]
base_url = "http://other.test/v1"
[models.fast]
provider = "other"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_kind_of_setting_can_stand_in_the_file(folder: Path) -> None:
    (folder / "perdure.toml").write_text(WHOLE)
    settings = Settings.configured()
    assert settings.task_queue == "of-the-file"
    assert settings.agents == ["acme.agents", "./more.py"]
    assert settings.openai_base_url == "http://file.test/v1"
    assert settings.prices == {"small": Price(input=1, output=2)}
    assert settings.rate_limits == {"*": RateLimit(requests_per_minute=3)}


def test_each_source_is_stronger_than_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "perdure.toml").write_text(WHOLE)
    assert _task_queue() == ("of-the-file", "perdure.toml")
    (folder / ".env").write_text("PERDURE_TASK_QUEUE=of-dotenv\n")
    assert _task_queue() == ("of-dotenv", ".env")
    monkeypatch.setenv("PERDURE_TASK_QUEUE", "of-the-environment")
    assert _task_queue() == ("of-the-environment", "environment")
    assert Settings(task_queue="given").task_queue == "given"
    assert Origins(Settings).of("grace_s") == "default"


def _task_queue() -> tuple[str, str]:
    return Settings.configured().task_queue, Origins(Settings).of("task_queue")


def test_a_stronger_table_replaces_a_weaker_one_as_a_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "perdure.toml").write_text(WHOLE)
    monkeypatch.setenv("PERDURE_PRICES", '{"large": {"input": 9, "output": 9}}')
    monkeypatch.setenv("OPENAI_BASE_URL", "http://environment.test/v1")
    settings = Settings.configured()
    assert settings.prices == {"large": Price(input=9, output=9)}
    assert settings.openai_base_url == "http://environment.test/v1"


def test_the_file_may_be_elsewhere_and_has_to_be_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "perdure.toml").write_text(WHOLE)
    other = folder / "other.toml"
    monkeypatch.setenv("PERDURE_CONFIG_FILE", str(other))
    with pytest.raises(ConfigurationError, match="PERDURE_CONFIG_FILE: there is no file"):
        Settings.configured()
    other.write_text('task_queue = "elsewhere"')
    assert _task_queue() == ("elsewhere", str(other))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param('task_queu = "x"', "'task_queu'. Did you mean task_queue?", id="misspelt"),
        pytest.param('PERDURE_MODEL = "x"', "Did you mean model?", id="variable"),
        pytest.param("nonsense = 1", "there is no setting 'nonsense'", id="nonsense"),
        pytest.param('max_steps = "many"', "perdure.toml: max_steps: Input should be", id="type"),
        pytest.param("[prices.m]\ninptu = 1", "perdure.toml: prices m input: Field", id="price"),
        pytest.param("model = hunter2x", r"no TOML: .*line 1, column 9", id="no-toml"),
        pytest.param("a = 1\nb =", "no TOML: .*at end of document", id="cut"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(folder: Path, line: str, told: str) -> None:
    (folder / "perdure.toml").write_text(line)
    with pytest.raises(ConfigurationError, match=told) as refused:
        Settings.configured()
    assert "hunter2x" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "way_out"),
    [
        pytest.param('openai_api_key = "hunter2x"', "OPENAI_API_KEY", id="field"),
        pytest.param('OPENAI_API_KEY = "hunter2x"', "OPENAI_API_KEY", id="variable"),
        pytest.param('redis_url = "redis://:hunter2x@h"', "PERDURE_REDIS_URL", id="url"),
        pytest.param('PERDURE_SECRET_BANK = "hunter2x"', "PERDURE_SECRET_", id="tool"),
        pytest.param('[secrets]\nbank = "hunter2x"', "PERDURE_SECRET_", id="table"),
    ],
)
def test_secrets_are_refused_in_the_file(folder: Path, line: str, way_out: str) -> None:
    (folder / "perdure.toml").write_text(line)
    with pytest.raises(ConfigurationError, match="is a secret") as refused:
        Settings.configured()
    assert f"Set {way_out}" in refused.value.hint
    assert "hunter2x" not in str(refused.value)


def test_variables_that_set_nothing_are_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_MAXSTEPS", "3")
    monkeypatch.setenv("PERDURE_SECRET_BANK", "x")
    (folder / ".env").write_text("PERDURE_CONFIG_FILE=here.toml\nOTHER=1\n")
    assert list(Origins(Settings).unknown()) == [
        ("PERDURE_MAXSTEPS", "environment", "PERDURE_MAX_STEPS"),
        ("PERDURE_CONFIG_FILE", ".env", None),
    ]


def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_PRICES", "hunter2x{")
    with pytest.raises(ConfigurationError, match="PERDURE_PRICES: it is not JSON") as refused:
        Settings.configured()
    assert "hunter2x" not in str(refused.value)
