"""Texts and files that are too large for Temporal, in the same storage as its payloads.

They are handed around by reference, never as payloads: only who asks for one reads it.
"""

import asyncio
import zlib

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from perdure.runs.contract import RUN_WORKFLOW
from perdure.runs.errors import ConfigurationError
from perdure.runs.files import StoredText
from perdure.runs.limits import MAX_FULL_RESULT_BYTES

ENCODING = b"binary/zlib-text"


class StoredTexts:
    """Keeps texts and gives them back.

    Args:
        converter: Ours; its codec and its storage are used.
        namespace: Temporal's, a part of the names of objects in S3.
    """

    def __init__(self, converter: DataConverter, namespace: str) -> None:
        if converter.external_storage is None:
            raise ConfigurationError(
                "The client has no storage for large data.",
                hint="Connect with `RunManager.connect`, or with our `data_converter()`.",
            )
        self._storage = converter.external_storage
        self._codec = converter.payload_codec
        self._namespace = namespace

    async def keep(self, text: bytes, run_id: str) -> StoredText:
        """Store something of a Run: a text, given as UTF-8, or the content of a file.

        Raises:
            StorageUnavailable: When it can't be written.
        """
        payload = await asyncio.to_thread(_deflated, text)
        if self._codec is not None:
            [payload] = await self._codec.encode([payload])
        target = StorageDriverWorkflowInfo(namespace=self._namespace, id=run_id, type=RUN_WORKFLOW)
        driver = self._storage.drivers[0]
        [claim] = await driver.store(StorageDriverStoreContext(target=target), [payload])
        return StoredText(bytes=len(text), driver=driver.name(), claim=dict(claim.claim_data))

    async def read(self, stored: StoredText) -> str:
        """Return a text.

        Raises:
            PerdureError: As `read_bytes`.
        """
        return (await self.read_bytes(stored)).decode()

    async def read_bytes(self, stored: StoredText) -> bytes:
        """Return what was kept.

        Raises:
            ConfigurationError: When it was kept in a storage that is not configured here.
            StorageUnavailable: When it is not there.
        """
        claim = StorageDriverClaim(claim_data=stored.claim)
        context = StorageDriverRetrieveContext()
        [payload] = await self._driver(stored.driver).retrieve(context, [claim])
        if self._codec is not None:
            [payload] = await self._codec.decode([payload])
        return await asyncio.to_thread(_inflated, payload.data)

    def _driver(self, name: str) -> StorageDriver:
        for driver in self._storage.drivers:
            if driver.name() == name:
                return driver
        raise ConfigurationError(
            f"The text was kept in the storage {name!r}, which is not configured here.",
            hint="Set PERDURE_STORAGE_S3_BUCKET as the worker has it.",
        )


def _deflated(text: bytes) -> Payload:
    # In a thread, at the fastest level: 64 MiB take a second even so.
    return Payload(metadata={"encoding": ENCODING}, data=zlib.compress(text, level=1))


def _inflated(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, MAX_FULL_RESULT_BYTES + 1)
