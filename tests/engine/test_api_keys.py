"""API keys: never kept, only their hashes; a file that is whole or not there."""

import asyncio
import hashlib
import hmac
import json
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.engine.api_keys import KEY_PATTERN, KeyFile
from perdure.engine.key_ring import KeyRing
from perdure.runs.errors import ConfigurationError, InvalidRequest
from tests.gateway.security.matrix import forms
from tests.harness.processes import output


def test_a_key_is_kept_as_its_hash_only(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key, known = file.create("ci", ["read", "write", "read"], tenant="acme")
    assert re.fullmatch(KEY_PATTERN, key)
    assert len(key.rpartition("_")[2]) * 5.95 >= 256 - 0.2
    raw = file.path.read_text()
    secret = key.rpartition("_")[2]
    assert not [form for form in forms(secret) if form in raw]
    [kept] = json.loads(raw)["keys"]
    assert kept["sha256"] == hashlib.sha256(key.encode()).hexdigest()
    assert (known.scopes, known.tenant, known.name) == (("read", "write"), "acme", "ci")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.create("ci", ["read"])
    before = file.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        file.create("other", ["read"])
    assert file.path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["keys.json"]


async def test_keys_that_are_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    makers = [asyncio.to_thread(file.create, f"k{n}", ["read"]) for n in range(20)]
    made = await asyncio.gather(*makers)
    assert {each.id for each in file.keys()} == {known.id for _, known in made}


def test_a_key_is_compared_in_constant_time_also_when_its_id_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key, known = file.create("ci", ["read"])
    ring = KeyRing(file)
    compared: list[tuple[str, str]] = []
    really = hmac.compare_digest

    def watched(one: str, other: str) -> bool:
        compared.append((one, other))
        return really(one, other)

    monkeypatch.setattr("hmac.compare_digest", watched)
    assert ring.find(key) == known
    for wrong in (key[:-1], key + "x", key.replace("pdk", "pdx"), "pdk_nobody_x", "", "x" * 10_000):
        assert ring.find(wrong) is None
    assert len(compared) == 7
    assert {len(part) for pair in compared for part in pair} == {64}


def test_a_key_ends_when_its_time_is_over(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    file = KeyFile(tmp_path / "keys.json")
    key, _ = file.create("ci", ["read"], expires_at=now)
    assert KeyRing(file, lambda: now - timedelta(microseconds=1)).find(key) is not None
    assert KeyRing(file, lambda: now).find(key) is None


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", {"name": "two words"}),
        ("name", {"name": ""}),
        ("tenant", {"tenant": "Acme"}),
        ("tenant", {"tenant": "a:b"}),
        ("tenant", {"tenant": ""}),
        ("tenant", {"tenant": "a" * 33}),
        ("scope", {"scopes": ["root"]}),
        ("scope", {"scopes": []}),
    ],
)
def test_an_unusable_key_is_refused_and_nothing_written(
    field: str, given: dict[str, object], tmp_path: Path
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    usual: dict[str, object] = {"name": "ci", "scopes": ["read"]}
    with pytest.raises(InvalidRequest, match=field):
        file.create(**(usual | given))  # type: ignore[arg-type]
    assert not file.path.exists()


async def test_the_commands_make_list_and_revoke_keys(tmp_path: Path) -> None:
    env = {"PERDURE_API_KEYS": str(tmp_path / "keys.json")}
    arguments = ("--scope", "read", "--scope", "approve", "--tenant", "acme", "--expires", "90d")
    code, key, told = await output("keys", "create", "ci", *arguments, env=env)
    known = KeyRing(KeyFile(tmp_path / "keys.json")).find(key.strip())
    assert code == 0
    assert known is not None
    assert (known.tenant, known.allows) == ("acme", {"read", "approve"})
    assert known.expires_at is not None
    assert known.expires_at - known.created_at > timedelta(days=89)
    assert told == f"API key {known.id} of ci. It is not shown again.\n"
    _, listed, _ = await output("keys", "list", "--json", env=env)
    assert json.loads(listed)["id"] == known.id
    assert known.sha256 not in listed
    code, gone, _ = await output("keys", "revoke", known.id, env=env)
    assert (code, KeyFile(tmp_path / "keys.json").keys()) == (0, ())
    assert gone == f"API key {known.id} of ci is revoked.\n"


async def test_the_commands_say_what_is_wrong() -> None:
    code, _, error = await output("keys", "list")
    assert code == 6
    assert error.startswith("Error (configuration): PERDURE_API_KEYS is not set.")
