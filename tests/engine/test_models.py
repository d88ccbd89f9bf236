"""`perdure.toml`: what is wrong with it is told when a worker starts, and where; never a value."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from perdure import Agent
from perdure.activities.endpoints import Endpoints
from perdure.agents.registry import Registry
from perdure.engine.models import model_table
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import RateLimit
from perdure.runs.providers import AliasPrice, ModelAlias, ModelTable, Provider
from perdure.runs.usage import Price
from perdure.worker import endpoints_of
from tests.harness.processes import output

EXAMPLE = Path(__file__).parents[2] / "perdure.example.toml"
KEY = "sk-canary-0123456789abcdef"
HERE = '[providers.here]\nbase_url = "http://127.0.0.1:1/v1"\n'


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that is read; nothing stands in it yet."""
    path = tmp_path / "mine.toml"
    monkeypatch.setenv("PERDURE_CONFIG_FILE", str(path))
    path.write_text("")
    return path


def test_the_example_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CONFIG_FILE", str(EXAMPLE))
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    table = model_table(Settings())
    assert table.names == "careful, fast, local"
    assert table.keys == {"openrouter": SecretStr(KEY)}
    assert table.chain("fast") == ["fast", "careful", "local"]
    assert KEY not in repr(table) + table.model_dump_json()
    assert not endpoints_of(Settings()).of("local").chat.redact(KEY).count(KEY)


def test_without_a_file_there_is_the_one_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_table(Settings()) == ModelTable()
    with pytest.raises(ConfigurationError, match="no model provider"):
        endpoints_of(Settings())
    given = Settings(openai_api_key=SecretStr("k" * 9), openai_base_url="http://h/v1")
    assert model_table(given).providers == {
        "openai": Provider(base_url="http://h/v1", api_key="OPENAI_API_KEY")
    }


def test_the_file_of_the_working_directory_is_read_and_env_files_hold_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("perdure.toml").write_text('[providers.openai]\napi_key = "TEAM_KEY"')
    Path(".env").write_text(f"TEAM_KEY={KEY}\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://passed.over/v1")
    given = Settings(openai_api_key=SecretStr("passed over"))
    assert model_table(given).keys == {"openai": SecretStr(KEY)}
    assert "api.openai.com" in str(endpoints_of(given).of("gpt-5").chat._client.base_url)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[providers", "is no TOML"),
        ("models = 3", "[models]: it is no table. Write [models.NAME]"),
        ("[models]\nfast = 3", "[models.fast]: it is no table."),
        ("[providers.a]", "[providers.a] base_url: it is missing."),
        ('[providers.a]\nbase_url = "h/v1"', "[providers.a] base_url: it is no http or https URL"),
        (HERE + 'api_kye = "A"', "api_kye: there is no such key. Did you mean 'api_key'?"),
        (
            HERE + 'api_key = "A_KEY"',
            "[providers.here] api_key: the environment variable A_KEY is not set. Set it",
        ),
        (
            HERE + "[models.m]\nprovider='there'",
            "[models.m] provider: there is no provider 'there'. Did you mean 'here'?",
        ),
        ("[models.m]", "[models.m] provider: there is no provider 'openai'. Set OPENAI_API_KEY"),
        (
            HERE
            + "[models.m]\nprovider='here'\nfallbacks=['slwo']\n[models.slow]\nprovider='here'",
            "[models.m] fallbacks: there is no model 'slwo'. Did you mean 'slow'?",
        ),
        (
            HERE + "[models.a]\nprovider='here'\nfallbacks=['b']\n"
            "[models.b]\nprovider='here'\nfallbacks=['c']\n"
            "[models.c]\nprovider='here'\nfallbacks=['d', 'a']\n[models.d]\nprovider='here'",
            "[models.a] fallbacks: they lead back to where they began: a → b → c → a.",
        ),
        (HERE + "[models.a]\nprovider='here'\nfallbacks=['a']", "began: a → a."),
        (HERE + "[models.a]\nfallbacks='b'", "[models.a] fallbacks: input should be a valid tuple"),
        (HERE + "[models.a]\nprice={input=-1, output=0}", "[models.a] price.input: input should"),
        (HERE + "[models.a]\nprice={input=1}", "[models.a] price.output: field required"),
        (
            HERE + "[models.a]\nprice={input=1, output=1, cached=1}",
            "[models.a] price.cached: there is no such key. Did you mean 'cached_input'?",
        ),
        (
            HERE + "[models.a]\nrate_limit={rpm=1}",
            "rate_limit.rpm: there is no such key. There are: requests_per_minute, tokens",
        ),
        (
            HERE + "[models.a]\nprovider='here'\nmodel='m'\nrate_limit={requests_per_minute=1}\n"
            "[models.m]\nprovider='here'\nrate_limit={requests_per_minute=2}",
            "[models.m] rate_limit: models.a is the same model of the same provider",
        ),
        (HERE + "[models.a]\ncontext_window=0", "[models.a] context_window: input should be"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str, written: Path) -> None:
    variable = "[models.used]\nprovider = 'here'" if "api_key" in text else ""
    written.write_text(f"{text}\n{variable}")
    with pytest.raises(ConfigurationError) as caught:
        model_table(Settings())
    assert told in str(caught.value)
    assert str(caught.value).startswith(str(written))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HERE + f"api_key = '{KEY}'", "[providers.here] api_key: it is not the name of an"),
        (HERE + "api_key = 'canaryINLOWERCASE'", "[providers.here] api_key: it is not the name"),
        (HERE + f"headers = {{Authorization = '{KEY}'}}", "headers.Authorization: it would be a"),
        (HERE + f"headers = {{X-Team = '{KEY}'}}", "[providers.here] headers.X-Team: it looks"),
        ("[providers.a]\nbase_url = 'https://u:canary@h/v1'", "base_url: it holds more than"),
        ("[providers.a]\nbase_url = 'https://h/v1?key=canary'", "base_url: it holds more than"),
        (f"[models.a]\nprovider = '{KEY}'", "[models.a] provider: it looks like a secret"),
        (f"[models.a]\nfallbacks = ['{KEY}']", "[models.a] fallbacks: it looks like a secret"),
        (f"[models.a]\n'{KEY}' = 1", "there is no such key"),
        (f"[models.a]\nprice = '{KEY}'", "[models.a] price: it looks like a secret"),
        ("[models.a]\nrate_limit = 'canary'", "[models.a] rate_limit: input should be"),
        ("key = canary", "is no TOML"),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(
    text: str, told: str, written: Path
) -> None:
    written.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        model_table(Settings())
    assert told in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_file_that_is_named_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_CONFIG_FILE", "/nowhere/perdure.toml")
    with pytest.raises(ConfigurationError, match="there is no file '/nowhere/perdure"):
        model_table(Settings())


def test_a_key_is_not_missed_where_no_model_needs_it(written: Path) -> None:
    written.write_text(HERE + 'api_key = "NOT_SET"')
    assert "here" in model_table(Settings()).providers


async def test_a_worker_does_not_start_with_a_file_that_is_wrong(written: Path) -> None:
    written.write_text("[models.fast]")  # noqa: ASYNC240 - one short line
    env = {"PERDURE_CONFIG_FILE": str(written)}
    code, _, told = await output("worker", env=env)
    assert code == 6
    assert f"Error: {written}: [models.fast] provider: there is no" in told


def test_an_agent_whose_model_nobody_has_is_refused(written: Path) -> None:
    written.write_text(HERE + "[models.fast]\nprovider='here'")
    endpoints, registry = endpoints_of(Settings()), Registry()
    registry.add(Agent(name="a", model="fast"), "test")
    endpoints.check(registry, "gpt-5-mini")
    registry.add(Agent(name="b", model="fast", fallback_models=["fsat"]), "test")
    with pytest.raises(ConfigurationError, match=r"'b' asks for the model 'fsat'.* has: fast"):
        endpoints.check(registry, "gpt-5-mini")


def test_settings_for_an_alias_win_over_the_file_and_this_over_those_for_its_model() -> None:
    limits = [RateLimit(requests_per_minute=number) for number in range(1, 6)]
    price, own = AliasPrice(input=1, output=1), Price(input=2, output=2)
    table = ModelTable(
        providers={"p": Provider(base_url="http://h/v1"), "openai": Provider()},
        models={
            "a": ModelAlias(provider="p", model="m", rate_limit=limits[0]),
            "b": ModelAlias(provider="p", model="n", rate_limit=limits[1], price=price),
            "c": ModelAlias(provider="p", model="o"),
            "d": ModelAlias(model="q", rate_limit=limits[3]),
        },
    )
    given = {"b": limits[2], "m": limits[4], "o": limits[4], "q": limits[4], "*": limits[0]}
    found = Endpoints(table, {"b": own}, given)
    lanes = {name: found.rate_limits.get(found.of(name).lane) for name in "abcd"}
    assert lanes == {"a": limits[0], "b": limits[2], "c": limits[4], "d": limits[3]}
    assert (found.of("b").lane, found.of("d").lane) == ("n at p", "q")
    assert found.of("b").price == own
    assert Endpoints(table).of("b").price == price
