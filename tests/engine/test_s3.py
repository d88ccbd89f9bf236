"""Large payloads in S3. Most of it runs only where the extra `s3` and moto are installed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.engine.converter import data_converter
from perdure.engine.settings import Settings
from perdure.engine.storage import LOOKS, ObjectUnavailable
from perdure.engine.stored_text import StoredTexts
from perdure.runs.errors import ConfigurationError, StorageUnavailable
from perdure.runs.steps import ToolReply
from tests.engine.noise import noise

BUCKET = "payloads"
REPLY = ToolReply(text=noise(1_000_000))


def test_without_the_extra_the_setting_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aioboto3", None)
    with pytest.raises(ConfigurationError, match=r"perdure\[s3\]"):
        data_converter(Settings(storage_s3_bucket=BUCKET))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server that speaks S3, with an empty bucket."""
    pytest.importorskip("aioboto3")
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    running = moto.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield client
    for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=item["Key"])
    running.stop()


def keys(server: Any) -> list[str]:
    return [item["Key"] for item in server.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(storage_dir=tmp_path, storage_s3_bucket=BUCKET)


async def test_large_payloads_and_texts_go_to_the_bucket(server: Any, settings: Settings) -> None:
    payloads = await data_converter(settings).encode([REPLY, ToolReply(text="small")])
    other = data_converter(settings)
    assert await other.decode(payloads, [ToolReply, ToolReply]) == [REPLY, ToolReply(text="small")]
    assert len(keys(server)) == 1
    texts = StoredTexts(other, "default")
    kept = await texts.keep(REPLY.text.encode(), "run-1")
    assert await texts.read(kept) == REPLY.text
    assert [key for key in keys(server) if "/ns/default/wt/Run/wi/run-1/" in key]
    assert list(settings.storage_folder.iterdir()) == []


async def test_what_was_in_the_directory_before_can_still_be_read(
    server: Any, settings: Settings
) -> None:
    before = data_converter(Settings(storage_dir=settings.storage_dir))
    payloads = await before.encode([REPLY])
    assert await data_converter(settings).decode(payloads, [ToolReply]) == [REPLY]


async def test_a_lasting_absence_ends_a_run(server: Any, settings: Settings) -> None:
    converter = data_converter(settings)
    payloads = await converter.encode([REPLY])
    server.delete_object(Bucket=BUCKET, Key=keys(server)[0])
    for look in range(1, LOOKS + 1):
        with pytest.raises(ObjectUnavailable, match="missing or damaged") as lost:
            await converter.decode(payloads, [ToolReply])
        assert lost.value.non_retryable is (look == LOOKS)


async def test_a_server_that_does_not_answer_is_waited_for(
    server: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = await data_converter(settings).encode([REPLY])
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    cut_off = data_converter(settings)
    for _ in range(LOOKS + 1):
        with pytest.raises(ObjectUnavailable) as lost:
            await cut_off.decode(payloads, [ToolReply])
        assert not lost.value.non_retryable
    with pytest.raises(StorageUnavailable, match="AWS_ENDPOINT_URL_S3"):
        await cut_off.encode([REPLY])


async def test_a_bucket_that_is_not_there_is_said_to_be_so(server: Any, tmp_path: Path) -> None:
    converter = data_converter(Settings(storage_dir=tmp_path, storage_s3_bucket="no-such-bucket"))
    with pytest.raises(StorageUnavailable, match="no-such-bucket"):
        await converter.encode([REPLY])
