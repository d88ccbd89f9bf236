"""Large payloads in S3, or anything that speaks its protocol: the SDK's own driver.

Needs the extra `s3`. Region, credentials and endpoint come from AWS's own variables and
profiles (`AWS_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL_S3`, …).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from perdure.engine.storage import ObjectUnavailable, Patience
from perdure.runs.errors import ConfigurationError

MAX_OBJECT_BYTES = 80 * 1024 * 1024
"""More than anything that is stored: a whole result with what is around it."""
ABSENT = ("NoSuchKey", "404")
"""What S3 says of a key that is not there; anything else may pass."""

Opener = Callable[[], AbstractAsyncContextManager[S3StorageDriverClient]]


class S3Driver(StorageDriver):
    """The SDK's driver, with errors that have a code.

    Args:
        bucket: Name of a bucket that exists.

    Raises:
        ConfigurationError: When the extra `s3` is not installed.
    """

    def __init__(self, bucket: str) -> None:
        client = _Client(_opener())
        self._inner = S3StorageDriver(client, bucket, max_payload_size=MAX_OBJECT_BYTES)
        self._patience = Patience()

    def name(self) -> str:
        """Return the name by which references find this driver."""
        return self._inner.name()

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Upload payloads.

        Raises:
            StorageUnavailable: When S3 refuses, or does not answer.
        """
        try:
            return await self._inner.store(context, payloads)
        except Exception as exc:
            raise _unavailable(exc) from exc

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Download payloads, and check that they are what was stored.

        Raises:
            StorageUnavailable: When one is missing or damaged, or S3 does not answer.
        """
        return [await self._retrieved(context, claim) for claim in claims]

    async def _retrieved(
        self, context: StorageDriverRetrieveContext, claim: StorageDriverClaim
    ) -> Payload:
        key = claim.claim_data.get("key", "")
        try:
            [payload] = await self._inner.retrieve(context, [claim])
        except Exception as exc:
            if _is_absent(exc) or isinstance(exc, (ValueError, KeyError)):
                raise self._patience.missing(
                    key,
                    f"A stored payload is missing or damaged: {exc}.",
                    "Look for the object in the bucket; nothing of ours deletes any.",
                ) from exc
            raise _unavailable(exc) from exc
        self._patience.found(key)
        return payload


class _Client(S3StorageDriverClient):
    """Opens the real client at the first call, in the event loop that makes it."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._opening = asyncio.Lock()
        self._stack = contextlib.AsyncExitStack()
        self._opened: S3StorageDriverClient | None = None

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        await (await self._client()).put_object(bucket=bucket, key=key, data=data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        return await (await self._client()).object_exists(bucket=bucket, key=key)

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        return await (await self._client()).get_object(bucket=bucket, key=key)

    async def _client(self) -> S3StorageDriverClient:
        async with self._opening:
            if self._opened is None:
                self._opened = await self._stack.enter_async_context(self._opener())
            return self._opened


def _opener() -> Opener:
    # Imported here, for those who use it: it takes half a second.
    try:
        import aioboto3
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client
    except ImportError as exc:
        raise ConfigurationError(
            "PERDURE_STORAGE_S3_BUCKET is set, but what speaks to S3 is not installed.",
            hint="Install it: `pip install 'perdure[s3]'`.",
        ) from exc

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[S3StorageDriverClient]:
        async with aioboto3.Session().client("s3") as client:
            yield new_aioboto3_client(client)

    return opened


def _is_absent(exc: Exception) -> bool:
    response = getattr(exc.__cause__, "response", {})
    return response.get("Error", {}).get("Code") in ABSENT


def _unavailable(exc: Exception) -> ObjectUnavailable:
    why = f"{exc} ({exc.__cause__})" if exc.__cause__ else str(exc)
    return ObjectUnavailable(
        f"S3 did not keep or give a payload: {why}.",
        "Check the bucket, the credentials and AWS_ENDPOINT_URL_S3; Runs go on then.",
        for_good=False,
    )
