"""A URL of Redis that is wrong is refused, and never shown: a password may be in it."""

import sys
import traceback

import pytest
from pydantic import SecretStr

from perdure.engine.redis import redis_of
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from tests.harness.processes import output


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://:pass-9f3c@host", id="scheme"),
        pytest.param("redis://:pass-9f3c/x@host:6379", id="slash"),
        pytest.param("redis://:pass-9f3c@host:port", id="port"),
        pytest.param("redis://:pass-9f3c@host?nonsense=1", id="option"),
        pytest.param("redis://:pass-9f3c@host?socket_timeout=x", id="option-value"),
    ],
)
def test_a_url_that_is_wrong_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="PERDURE_REDIS_URL is not a URL") as refused:
        redis_of(Settings(redis_url=url))  # type: ignore[arg-type]
    shown = traceback.format_exception(refused.value)
    assert "pass-9f3c" not in "".join(shown)


@pytest.mark.usefixtures("temporal")
async def test_commands_name_the_url_that_is_wrong() -> None:
    code, _, error = await output("list", env={"PERDURE_REDIS_URL": "localhost:6379"})
    assert code == 6
    assert error.startswith("Error (configuration): PERDURE_REDIS_URL is not a URL of Redis.")


def test_a_missing_client_of_redis_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigurationError, match=r"perdure\[redis\]"):
        redis_of(Settings(redis_url=SecretStr("redis://localhost")))
    assert redis_of(Settings()) is None
