"""Temporal behind TLS, client certificates and API keys, reached by profiles.

What can't be reached is said within seconds, with what to do about it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest

from perdure.engine import connect as connecting
from perdure.engine.connect import connect
from perdure.engine.destination import Destination
from perdure.engine.dev_server import DevServer
from perdure.runs.errors import ConfigurationError, EngineUnavailable
from tests.harness.gate import Authority, Gate, gate

KEY = "key-of-temporal-3141"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("theirs"))


@pytest.fixture(scope="module")
async def tls(temporal: DevServer, ours: Authority) -> AsyncIterator[Gate]:
    async with gate(str(temporal.address), ours.certificate("temporal.test")) as opened:
        yield opened


@pytest.fixture(scope="module")
async def mutual(temporal: DevServer, ours: Authority) -> AsyncIterator[Gate]:
    own = ours.certificate("temporal.test")
    async with gate(str(temporal.address), own, clients_of=ours.ca) as opened:
        yield opened


@pytest.fixture(scope="module")
async def keyed(temporal: DevServer, ours: Authority) -> AsyncIterator[Gate]:
    own = ours.certificate("temporal.test")
    async with gate(str(temporal.address), own, api_key=KEY) as opened:
        yield opened


Write = Callable[[str], object]


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file of profiles; nothing else says where Temporal is."""
    file = tmp_path / "temporal.toml"
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    return file.write_text


def profile(gate: Gate, ca: Path, *more: str, pair: tuple[Path, Path] | None = None) -> str:
    lines = ["[profile.cloud]", f'address = "{gate.address}"', *more, "[profile.cloud.tls]"]
    lines.append(f'server_ca_cert_path = "{ca}"')
    if pair:
        lines += [f'client_cert_path = "{pair[0]}"', f'client_key_path = "{pair[1]}"']
    return "\n".join(lines)


async def answers() -> str:
    client = await connect()
    told = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    return told.server_version


async def test_a_profile_leads_through_tls_with_an_authority_of_its_own(
    tls: Gate, ours: Authority, profiles: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(profile(tls, ours.ca, 'namespace = "elsewhere"'))
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    assert await answers()
    assert (await connect()).namespace == "elsewhere"
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "of-the-environment")
    assert (await connect()).namespace == "of-the-environment"
    found = Destination.configured()
    assert str(found) == tls.address
    assert found.tls == "on, with a CA of its own"


async def test_a_client_certificate_is_shown(
    mutual: Gate, ours: Authority, profiles: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(profile(mutual, ours.ca, pair=ours.certificate("worker")))
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    assert await answers()


async def test_an_api_key_is_sent_with_every_call(
    keyed: Gate, ours: Authority, profiles: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(profile(keyed, ours.ca, f'api_key = "{KEY}"'))
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    keyed.headers.clear()
    assert await answers()
    assert len(keyed.headers) > 1
    assert {each["authorization"] for each in keyed.headers} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("wrong", ["ca", "system", "name", "key", "no-key", "no-pair", "pair"])
async def test_who_is_not_let_in_is_told_why(
    wrong: str,
    tls: Gate,
    mutual: Gate,
    keyed: Gate,
    ours: Authority,
    theirs: Authority,
    profiles: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = f'[profile.default]\naddress = "{tls.address}"'
    told = {
        "ca": (profile(tls, theirs.ca), "authority that is not trusted"),
        "system": (f"{address}\ntls = {{disabled = false}}", "authority that is not trusted"),
        "name": (profile(tls, ours.ca) + '\nserver_name = "other"', "for another name"),
        "key": (profile(keyed, ours.ca, 'api_key = "hunter2x"'), "missing, wrong or expired"),
        "no-key": (profile(keyed, ours.ca), "missing, wrong or expired"),
        "no-pair": (profile(mutual, ours.ca), "wants a client certificate"),
        "pair": (
            profile(mutual, ours.ca, pair=theirs.certificate("worker")),
            "wants a client certificate",
        ),
    }
    profiles(told[wrong][0].replace("profile.cloud", "profile.default"))
    with pytest.raises(ConfigurationError, match=told[wrong][1]) as refused:
        await connect()
    assert "hunter2x" not in str(refused.value)


async def test_tls_where_there_is_none_and_none_where_there_is(
    temporal: DevServer, tls: Gate, profiles: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles("")
    monkeypatch.setenv("TEMPORAL_ADDRESS", tls.address)
    with pytest.raises(EngineUnavailable, match="no Temporal server without TLS"):
        await connect()
    monkeypatch.setenv("TEMPORAL_ADDRESS", str(temporal.address))
    monkeypatch.setenv("TEMPORAL_TLS", "true")
    with pytest.raises(ConfigurationError, match="does not speak TLS"):
        await connect()


async def test_who_accepts_and_says_nothing_is_given_up(
    profiles: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK alone waits for minutes."""
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()
        gone.set()

    monkeypatch.setattr(connecting, "CONNECT_WITHIN_S", 0.2)
    profiles("")
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{port}")
        monkeypatch.setenv("TEMPORAL_TLS", "true")
        async with asyncio.timeout(20):
            with pytest.raises(EngineUnavailable, match="No Temporal server answers at"):
                await connect()
            await gone.wait()


@pytest.mark.parametrize(
    ("content", "variables", "told"),
    [
        pytest.param("[profile.default]\nx\n", {}, "unusable at line 2, column 2", id="no-toml"),
        pytest.param(
            "[profile.default]\napi_key = hunter2x", {}, "at line 2, column 11", id="key-unquoted"
        ),
        pytest.param("", {"TEMPORAL_PROFILE": "prod"}, "There is no profile 'prod'", id="profile"),
        pytest.param(None, {}, "TEMPORAL_CONFIG_FILE: there is no file", id="file"),
        pytest.param("", {"TEMPORAL_ADDRESS": "localhost"}, "is no host:port", id="address"),
        pytest.param(
            "", {"TEMPORAL_TLS_CLIENT_CERT_PATH": "/no/such.pem"}, "/no/such.pem: No such", id="pem"
        ),
        pytest.param(
            "",
            {"TEMPORAL_TLS_CLIENT_CERT_PATH": "/a", "TEMPORAL_TLS_CLIENT_CERT_DATA": "hunter2x"},
            "Not both: TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_CERT_DATA",
            id="both",
        ),
    ],
)
async def test_a_configuration_that_is_unusable_is_named(
    content: str | None,
    variables: dict[str, str],
    told: str,
    profiles: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if content is not None:
        profiles(content)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=told) as refused:
        await connect()
    assert "hunter2x" not in str(refused.value)
