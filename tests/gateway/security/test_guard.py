"""What the guard keeps out: other names, other pages, other types, too much of anything."""

from typing import Any

import pytest

from perdure.engine.api_keys import KeyFile
from perdure.gateway.binding import checked_binding, is_loopback_host
from perdure.gateway.guard import Access
from perdure.gateway.incoming import MAX_JSON_DEPTH, MAX_JSON_TOKENS, check_json
from perdure.gateway.problems import Refused
from perdure.runs.errors import ConfigurationError
from tests.gateway.security.checks import basic, bearer, speaking
from tests.gateway.security.conftest import MakeSettings
from tests.gateway.security.small import create_app

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
START = {"agent": "a", "input": "hi"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "::ffff:127.0.0.1"])
def test_without_keys_loopback_addresses_may_be_listened_on(host: str) -> None:
    checked_binding(host, has_keys=False)


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "", "10.0.0.7", "::ffff:10.0.0.7", "1.1"])
def test_without_keys_no_other_address_is_listened_on(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host == "1.1":  # a name that leads elsewhere
        found: Any = [(2, 1, 6, "", ("127.0.0.1", 0)), (2, 1, 6, "", ("192.0.2.1", 0))]
        monkeypatch.setattr("socket.getaddrinfo", lambda *given, **named: found)
    with pytest.raises(ConfigurationError, match="asks nobody for a key") as caught:
        checked_binding(host, has_keys=False)
    assert "perdure keys create" in caught.value.hint
    checked_binding(host, has_keys=True)


def test_a_name_that_there_is_not_is_not_listened_on() -> None:
    with pytest.raises(ConfigurationError, match="no such name"):
        checked_binding("nowhere.invalid", has_keys=False)


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("app.localhost:1", True),
        ("rebound.example.com", False),
        ("rebound.example.com:8080", False),
        ("127.0.0.1.example.com", False),
        ("localhost.example.com", False),
        ("notlocalhost", False),
        (EVERYWHERE, False),
        ("192.168.1.5", False),
        ("[::]:80", False),
        ("", False),
    ],
)
async def test_without_keys_only_names_of_this_machine_are_answered(
    host: str, is_ours: bool, keys: KeyFile, settings: MakeSettings
) -> None:
    assert is_loopback_host(host) is is_ours
    async with speaking(create_app(settings(api_keys=None)), Host=host) as client:
        answer = await client.get("/v1/runs")
        assert answer.status_code == (200 if is_ours else 421)
    key, _ = keys.create("ops", ["read"])
    async with speaking(create_app(settings()), Host=host, **bearer(key)) as client:
        assert (await client.get("/v1/runs")).status_code == 200


FOREIGN = {
    "another site": {"Origin": "https://evil.example"},
    "none": {"Origin": "null"},
    "another port": {"Origin": "http://localhost:3000"},
    "the name within a name": {"Origin": "http://localhost.evil.example"},
    "a user of the name": {"Origin": "http://localhost@evil.example"},
    "another scheme": {"Origin": "file://localhost"},
    "no origin": {"Origin": ""},
    "embedded": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "embedded by a neighbour": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
}
OWN = {
    "own": {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
    "own port": {"Origin": "http://localhost:80"},
    "behind TLS": {"Origin": "https://localhost"},
    "no browser": {},
    "a link": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    "typed in": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
}


@pytest.mark.parametrize("with_keys", [True, False], ids=["keys", "no keys"])
@pytest.mark.parametrize("whose", [*FOREIGN, *OWN])
async def test_pages_of_other_origins_are_refused(
    whose: str, with_keys: bool, keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("ops", ["admin"])
    given = {} if with_keys else {"api_keys": None}
    headers = (FOREIGN | OWN)[whose] | basic(key)
    expected = 403 if whose in FOREIGN else 200
    async with speaking(create_app(settings(**given)), **headers) as client:
        assert (await client.get("/v1/runs")).status_code == expected
        answer = await client.post("/v1/runs/acme:run_1/cancel")
        assert answer.status_code == expected
        assert "access-control-allow-origin" not in answer.headers
        asks = {"Access-Control-Request-Method": "POST"}
        preflight = await client.options("/v1/runs", headers=asks)
        assert "access-control-allow-origin" not in preflight.headers


async def test_pages_of_named_origins_may_call(keys: KeyFile, settings: MakeSettings) -> None:
    key, _ = keys.create("ops", ["admin"])
    app = create_app(settings(cors_origins="https://app.example, https://b.example"))
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, idempotency-key",
    }
    async with speaking(app, Origin="https://app.example") as client:
        preflight = await client.options("/v1/runs", headers=asks)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        answer = await client.post("/v1/runs", json=START, headers=bearer(key))
        assert answer.status_code == 202
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert "Location" in answer.headers["access-control-expose-headers"]
        assert (await client.post("/v1/runs", json=START)).status_code == 401
    async with speaking(app, Origin="https://evil.example", **bearer(key)) as client:
        assert (await client.options("/v1/runs", headers=asks)).status_code == 400
        assert (await client.post("/v1/runs", json=START)).status_code == 403


async def test_pages_of_any_origin_get_no_credentials(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("ops", ["admin"])
    app = create_app(settings(cors_origins="*"))
    async with speaking(app, Origin="https://any.example", **bearer(key)) as client:
        answer = await client.get("/v1/runs")
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    ("origins", "has_keys"),
    [
        ("*", False),
        ("app.example", True),
        ("https://app.example/", True),
        ("https://app.example/x", True),
        ("https://me@app.example", True),
        ("https://app.example:port", True),
        ("null", True),
    ],
)
def test_unusable_origins_are_refused_at_the_start(
    origins: str, has_keys: bool, settings: MakeSettings
) -> None:
    given = {} if has_keys else {"api_keys": None}
    with pytest.raises(ConfigurationError, match="PERDURE_CORS_ORIGINS"):
        Access.configured(settings(cors_origins=origins, **given))


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "application/json"}, b'{"agent": "a", "input": "b"}', 202),
        ({"Content-Type": "application/json; charset=utf-8"}, b'{"agent":"a","input":"b"}', 202),
        ({"Content-Type": "text/plain"}, b'{"agent": "a", "input": "b"}', 415),
        ({"Content-Type": "text/plain; x=application/json"}, b"{}", 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=b", 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--", 415),
        ({"Content-Type": "text/plain"}, b"", 415),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"{}", 415),
        ({}, b"{}", 415),
        ({"Content-Type": "application/json"}, b'{"agent": "\xff"}', 400),
        ({"Content-Type": "application/json"}, '{"agent": "a"}'.encode("utf-16"), 400),
        ({"Content-Type": "application/json"}, '{"agent": "a"}'.encode("utf-16-le"), 400),
        ({"Content-Type": "application/json"}, b"[" * 1_000 + b"]" * 1_000, 422),
    ],
)
async def test_only_plain_json_changes_anything(
    headers: dict[str, str], body: bytes, status: int, settings: MakeSettings
) -> None:
    async with speaking(create_app(settings(api_keys=None))) as client:
        answer = await client.post("/v1/runs", content=body, headers=headers)
        assert answer.status_code == status, answer.text
        if status >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == status


@pytest.mark.parametrize(
    ("body", "is_fine"),
    [
        (b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH, True),
        (b"[" * (MAX_JSON_DEPTH + 1), False),
        (b'{"a":' * (MAX_JSON_DEPTH + 1), False),
        (b'{"a":"' + b"[" * 1_000 + b'"}', True),
        (b'{"a":"\\"' + b"[" * 1_000 + b'"}', True),
        (b'{"a":"\\\\",' + b"[" * 1_000, False),
        (b'"' + b"\\" * 999 + b"[" * 1_000, True),
        (b"[],[]," * 10 + b"[[1]]", True),
        (b"[" + b"1," * MAX_JSON_TOKENS + b"1]", False),
        (b'["' + b"1," * MAX_JSON_TOKENS + b'1"]', True),
        (b'[{"a":1},' * 3 + b'"\n,[{' * 9, True),
    ],
)
def test_json_is_measured_without_being_parsed(body: bytes, is_fine: bool) -> None:
    if is_fine:
        check_json(body)
        return
    with pytest.raises(Refused):
        check_json(body)


async def test_every_answer_tells_browsers_to_be_careful(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("ops", ["admin"])
    async with speaking(create_app(settings()), **bearer(key)) as client:
        for path in ("/", "/v1/runs", "/v1/nowhere", "/healthz", "/v1/runs/acme:run_1/events"):
            headers = (await client.get(path)).headers
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
        assert (await client.get("/", headers=bearer("x"))).headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/runs?q=" + "x" * 9_000, {}, 422),
        ("/v1/runs/" + "x" * 9_000, {}, 422),
        ("/v1/runs", {f"X-{n}": "" for n in range(101)}, 431),
        ("/v1/runs", {"X-Long": "x" * 17_000}, 431),
        ("/healthz", {"X-Long": "x" * 17_000}, 431),
    ],
    ids=["query", "path", "many headers", "long header", "of health"],
)
async def test_the_head_of_a_request_is_bounded(
    path: str, headers: dict[str, str], status: int, settings: MakeSettings
) -> None:
    async with speaking(create_app(settings(api_keys=None)), **headers) as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, "payload_too_large")
