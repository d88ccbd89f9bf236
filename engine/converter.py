"""How values become payloads: pydantic's JSON, compressed when that is large.

Small payloads stay plain JSON, so that the Temporal UI shows them as they are. What
continue-as-new carries along is large and compresses well.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec

ENCODING = b"binary/zlib"
COMPRESS_FROM_BYTES = 16 * 1024
"""Smaller payloads stay readable in the Temporal UI."""
MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""A payload that would inflate beyond this is refused: nothing we write comes near it."""


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
    if payload.ByteSize() < COMPRESS_FROM_BYTES:
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


def data_converter() -> DataConverter:
    """Return the converter that every client, worker and replayer must use."""
    return replace(pydantic_data_converter, payload_codec=CompressionCodec())
