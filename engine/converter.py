"""How values become payloads: pydantic's JSON, compressed when that is large.

Small payloads stay plain JSON, so that the Temporal UI shows them as they are. What is large
even so, as an input of 3 MB or what continue-as-new carries along, is kept in a storage; the
history then holds a reference.
"""

import zlib
from collections.abc import Sequence
from typing import Any

from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    SerializationContext,
    StorageDriver,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from perdure.engine import stored_text
from perdure.engine.s3 import S3Driver
from perdure.engine.settings import Settings
from perdure.engine.storage import DirectoryDriver, PatientDriver
from perdure.sessions.contract import workflow_id

ENCODING = b"binary/zlib"
COMPRESSED = (ENCODING, stored_text.ENCODING)
COMPRESS_FROM_BYTES = 16 * 1024
"""Smaller payloads stay readable in the Temporal UI."""
MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""A payload that would inflate beyond this is refused: nothing we write comes near it."""
STORE_FROM_BYTES = 240 * 1024
"""Larger payloads are stored outside the history, none of whose events exceeds 256 KB so."""


class CompressionCodec(PayloadCodec):
    """zlib around payloads from `COMPRESS_FROM_BYTES` on, where that makes them smaller."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Compress what is large."""
        return [_compressed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Restore what was compressed; pass everything else through.

        Raises:
            ValueError: When a payload inflates beyond `MAX_INFLATED_BYTES`.
        """
        return [_restored(payload) for payload in payloads]


def _compressed(payload: Payload) -> Payload:
    if payload.ByteSize() < COMPRESS_FROM_BYTES or payload.metadata.get("encoding") in COMPRESSED:
        return payload
    data = zlib.compress(payload.SerializeToString())
    if len(data) >= payload.ByteSize():
        return payload
    return Payload(metadata={"encoding": ENCODING}, data=data)


def _restored(payload: Payload) -> Payload:
    if payload.metadata.get("encoding") != ENCODING:
        return payload
    inflater = zlib.decompressobj()
    data = inflater.decompress(payload.data, MAX_INFLATED_BYTES)
    if inflater.unconsumed_tail:
        raise ValueError(f"a payload inflates beyond {MAX_INFLATED_BYTES} bytes")
    return Payload.FromString(data)


class LeanJson(PydanticJSONPlainPayloadConverter):
    """pydantic's JSON without the fields that are none: they would be a tenth of every history.

    Only fields of our own models, whose default is none; what is in a dict stays.
    """

    def to_payload(self, value: Any) -> Payload | None:
        """Return a value as JSON."""
        data = _ANY.to_json(value, exclude_none=True)
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)


_ANY = SchemaSerializer(any_schema())


class LeanPayloadConverter(CompositePayloadConverter):
    """The SDK's converters, with `LeanJson` for JSON."""

    def __init__(self) -> None:
        lean = LeanJson()
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        super().__init__(
            *(lean if isinstance(each, JSONPlainPayloadConverter) else each for each in usual)
        )


def data_converter(settings: Settings | None = None) -> DataConverter:
    """Return the converter that every client, worker and replayer must use.

    Args:
        settings: Where large payloads are kept; the environment's by default.

    Raises:
        ConfigurationError: When the storage that is configured can't be used.
    """
    return DataConverter(
        payload_converter_class=LeanPayloadConverter,
        payload_codec=CompressionCodec(),
        external_storage=_storage(settings or Settings()),
    )


class Storage(ExternalStorage, WithSerializationContext):
    """Where large payloads are; a Session is not ended by one that is missing."""

    def with_context(self, context: SerializationContext) -> "Storage":
        """Return the storage for payloads of one workflow."""
        if not isinstance(context, WorkflowSerializationContext):
            return self
        if not (context.workflow_id or "").startswith(workflow_id("")):
            return self
        return _kept_in(*map(PatientDriver, self.drivers))


def _storage(settings: Settings) -> ExternalStorage:
    directory = DirectoryDriver(settings.storage_folder)
    if settings.storage_s3_bucket is None:
        return _kept_in(directory)
    # The directory stays known: what was written there before can still be read.
    return _kept_in(S3Driver(settings.storage_s3_bucket), directory)


def _kept_in(*drivers: StorageDriver) -> Storage:
    return Storage(
        drivers,
        driver_selector=lambda context, payload: drivers[0],
        payload_size_threshold=STORE_FROM_BYTES,
    )
