"""The directory of large payloads: exact, private, written once, and honest about what is lost."""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from perdure.engine.converter import STORE_FROM_BYTES, data_converter
from perdure.engine.settings import Settings
from perdure.engine.storage import LOOKS, DirectoryDriver, ObjectUnavailable
from perdure.engine.stored_text import StoredTexts
from perdure.runs.errors import ConfigurationError, ErrorCode, StorageUnavailable
from perdure.runs.limits import MAX_FULL_RESULT_BYTES
from perdure.runs.steps import ToolReply
from tests.engine.noise import noise


async def stored(driver: DirectoryDriver, *payloads: Payload) -> list[StorageDriverClaim]:
    return await driver.store(StorageDriverStoreContext(), payloads)


async def retrieved(driver: DirectoryDriver, claims: Sequence[StorageDriverClaim]) -> list[Payload]:
    return await driver.retrieve(StorageDriverRetrieveContext(), claims)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def driver(tmp_path: Path) -> DirectoryDriver:
    return DirectoryDriver(tmp_path / "new" / "storage")


PAYLOADS = [
    Payload(metadata={"encoding": b"json/plain"}, data=b'"a"'),
    Payload(metadata={"encoding": b"json/plain"}, data=b""),
    Payload(data=bytes(range(256)) * 1000),
]


async def test_payloads_come_back_as_they_were(driver: DirectoryDriver) -> None:
    claims = await stored(driver, *PAYLOADS)
    assert await retrieved(DirectoryDriver(driver.folder), claims) == PAYLOADS
    assert await retrieved(driver, claims[::-1]) == PAYLOADS[::-1]


async def test_a_file_is_named_by_its_content_two_folders_deep_and_for_its_owner_only(
    driver: DirectoryDriver,
) -> None:
    old = os.umask(0)
    try:
        [claim] = await stored(driver, PAYLOADS[2])
    finally:
        os.umask(old)
    [path] = files(driver.folder)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert path == driver.folder / digest[:2] / digest[2:4] / digest
    assert claim.claim_data == {"sha256": digest}
    assert path.stat().st_mode & 0o777 == 0o600
    made = [driver.folder.parent, driver.folder, *list(path.parents)[:2]]
    assert {folder.stat().st_mode & 0o777 for folder in made} == {0o700}


async def test_the_same_content_is_written_once_and_counts_as_used(
    driver: DirectoryDriver,
) -> None:
    await stored(driver, PAYLOADS[0])
    [path] = files(driver.folder)
    before = path.stat().st_ino
    os.utime(path, (1, 1))
    await asyncio.gather(*[stored(driver, PAYLOADS[0]) for _ in range(20)])
    assert files(driver.folder) == [path]
    assert path.stat().st_ino == before
    assert path.stat().st_mtime > 1


async def test_many_writers_at_once_leave_one_whole_file(driver: DirectoryDriver) -> None:
    others = [DirectoryDriver(driver.folder) for _ in range(20)]
    claims = await asyncio.gather(*[stored(other, PAYLOADS[2]) for other in others])
    assert len(files(driver.folder)) == 1
    assert await retrieved(driver, claims[0]) == [PAYLOADS[2]]


async def test_a_write_that_fails_leaves_nothing(
    driver: DirectoryDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    await stored(driver, PAYLOADS[0])
    files(driver.folder)[0].unlink()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable, match="No space left on device"):
        await stored(driver, PAYLOADS[0])
    assert files(driver.folder) == []


@pytest.mark.parametrize("damage", [b"", b"other", "cut"])
async def test_what_is_not_what_was_stored_is_not_used(
    driver: DirectoryDriver, damage: bytes | str
) -> None:
    claims = await stored(driver, PAYLOADS[2])
    [path] = files(driver.folder)
    path.write_bytes(path.read_bytes()[:-1] if damage == "cut" else bytes(damage))  # type: ignore[arg-type]
    with pytest.raises(StorageUnavailable, match="damaged") as lost:
        await retrieved(driver, claims)
    assert lost.value.code is ErrorCode.STORAGE_UNAVAILABLE


async def test_a_lasting_absence_ends_a_run_and_a_short_one_does_not(
    driver: DirectoryDriver, tmp_path: Path
) -> None:
    claims = await stored(driver, PAYLOADS[0])
    elsewhere = DirectoryDriver(tmp_path / "other")
    for look in range(1, LOOKS + 1):
        with pytest.raises(ObjectUnavailable, match="PERDURE_STORAGE_DIR") as lost:
            await retrieved(elsewhere, claims)
        assert lost.value.non_retryable is (look == LOOKS)
        assert str(elsewhere.folder) in str(lost.value)
        assert lost.value.details[0]["code"] == "storage_unavailable"
    await stored(elsewhere, PAYLOADS[0])
    assert await retrieved(elsewhere, claims) == [PAYLOADS[0]]
    files(elsewhere.folder)[0].unlink()
    with pytest.raises(ObjectUnavailable) as again:
        await retrieved(elsewhere, claims)
    assert not again.value.non_retryable, "it was there meanwhile"


async def test_a_file_of_another_user_is_as_good_as_absent(
    driver: DirectoryDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = await stored(driver, PAYLOADS[0])

    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    # Not by its mode: tests may run as root, who may read anything.
    monkeypatch.setattr(Path, "read_bytes", refused)
    for look in range(1, LOOKS + 1):
        with pytest.raises(ObjectUnavailable, match="may not be read by this user") as lost:
            await retrieved(driver, claims)
        assert lost.value.non_retryable is (look == LOOKS)


async def test_a_directory_that_can_not_be_read_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    driver = DirectoryDriver(tmp_path / "file")
    for _ in range(LOOKS + 1):
        with pytest.raises(ObjectUnavailable) as lost:
            await retrieved(driver, [StorageDriverClaim({"sha256": "0" * 64})])
        assert not lost.value.non_retryable
    with pytest.raises(StorageUnavailable):
        await stored(driver, PAYLOADS[0])


@pytest.mark.parametrize("digest", ["", "../../../etc/passwd", "0" * 63, "0" * 63 + "\n", "A" * 64])
async def test_a_reference_can_not_name_another_file(driver: DirectoryDriver, digest: str) -> None:
    with pytest.raises(StorageUnavailable, match="none of ours"):
        await retrieved(driver, [StorageDriverClaim({"sha256": digest})])


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("small", False),
        (noise(STORE_FROM_BYTES // 2), False),
        ("compresses well " * STORE_FROM_BYTES, False),
        (noise(4 * STORE_FROM_BYTES), True),
    ],
)
async def test_only_what_is_large_after_compression_is_stored(
    text: str, outside: bool, tmp_path: Path
) -> None:
    converter = data_converter(Settings(storage_dir=tmp_path))
    reply = ToolReply(text=text)
    payloads = await converter.encode([reply])
    assert len(files(tmp_path)) == outside
    assert payloads[0].ByteSize() < (1000 if outside else STORE_FROM_BYTES)
    assert await converter.decode(payloads, [ToolReply]) == [reply]
    for path in files(tmp_path):
        assert b"binary/zlib" in path.read_bytes()[:100], "compressed before it was stored"


async def test_a_text_is_kept_outside_whatever_its_size(tmp_path: Path) -> None:
    texts = StoredTexts(data_converter(Settings(storage_dir=tmp_path)), "default")
    for text in ("", "grüße 😀\0", noise(1_000_000)):
        kept = await texts.keep(text.encode(), "run-1")
        assert kept.bytes == len(text.encode())
        assert len(kept.model_dump_json()) < 200
        assert await texts.read(kept) == text
    assert len(files(tmp_path)) == 3


async def test_the_largest_text_is_kept_exactly(tmp_path: Path) -> None:
    texts = StoredTexts(data_converter(Settings(storage_dir=tmp_path)), "default")
    text = "x" * (MAX_FULL_RESULT_BYTES - 2) + "é"
    assert await texts.read(await texts.keep(text.encode(), "run-1")) == text


async def test_a_text_of_another_storage_says_which(tmp_path: Path) -> None:
    texts = StoredTexts(data_converter(Settings(storage_dir=tmp_path)), "default")
    kept = (await texts.keep(b"a", "run-1")).model_copy(update={"driver": "aws.s3driver"})
    with pytest.raises(ConfigurationError, match=r"aws\.s3driver.*PERDURE_STORAGE_S3_BUCKET"):
        await texts.read(kept)


def test_the_directory_is_in_the_data_folder_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PERDURE_STORAGE_DIR", raising=False)
    monkeypatch.setenv("PERDURE_DATA_DIR", str(tmp_path))
    assert Settings().storage_folder == tmp_path / "storage"
    monkeypatch.setenv("PERDURE_STORAGE_DIR", "")
    assert Settings().storage_folder == tmp_path / "storage"
    monkeypatch.setenv("PERDURE_STORAGE_DIR", str(tmp_path / "shared"))
    assert Settings().storage_folder == tmp_path / "shared"
