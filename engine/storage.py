"""Where large payloads are kept, instead of in Temporal's history: a directory.

Content decides the name (SHA-256), so nothing is ever overwritten and writing twice is writing
once. Every client and every worker of the same Runs needs the same directory. Nothing here
deletes anything.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError

from perdure.runs.errors import ErrorCode, StorageUnavailable, error

DRIVER = "perdure.directory"
"""In every reference that a history holds, so never renamed."""
LOOKS = 3
"""How often one worker looks for an object that is not there before the Run fails. Temporal
offers the task to other workers in between, which may share the right directory."""
DIGEST = re.compile(r"[0-9a-f]{64}")
FOLDER_MODE, FILE_MODE = 0o700, 0o600


class ObjectUnavailable(StorageUnavailable, ApplicationError):
    """A stored payload can't be had, said in the way the SDK understands.

    In a workflow task the SDK ends the Run with a non-retryable `ApplicationError`, and fails
    the task, to try it again for as long as it takes, with any other exception.

    Args:
        message: Which object is missing where.
        hint: The way out.
        for_good: Whether to end the Run instead of trying again.
    """

    message: str = ""
    # Over the SDK's read-only property of that name.

    def __init__(self, message: str, hint: str, *, for_good: bool) -> None:
        StorageUnavailable.__init__(self, message, hint=hint)
        why = error(ErrorCode.STORAGE_UNAVAILABLE, message, hint=hint, retryable=not for_good)
        ApplicationError.__init__(
            self, message, why.model_dump(mode="json"), type=self.code.value, non_retryable=for_good
        )

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"


class Patience:
    """Counts how often each object was not there: only a lasting absence ends a Run.

    A storage that can't be reached at all is another matter: then Runs wait for it, as they
    wait for Temporal.
    """

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()

    def missing(self, name: str, message: str, hint: str) -> ObjectUnavailable:
        """Return the exception for an object that is not there, or not what was stored."""
        self._looks[name] += 1
        return ObjectUnavailable(message, hint, for_good=self._looks[name] >= LOOKS)

    def found(self, name: str) -> None:
        """Forget that an object was not there."""
        self._looks.pop(name, None)


class PatientDriver(StorageDriver):
    """Never gives up: for what a Session reads.

    A single request that can't be read would end it, and the conversation with it: of a client
    that is configured wrongly, say. Temporal drops such a request after a few looks instead.

    Args:
        inner: Stores and retrieves.
    """

    def __init__(self, inner: StorageDriver) -> None:
        self._inner = inner

    def name(self) -> str:
        """Return the name by which references find the driver."""
        return self._inner.name()

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Store payloads.

        Raises:
            StorageUnavailable: When they can't be stored.
        """
        return await self._inner.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Retrieve payloads.

        Raises:
            StorageUnavailable: When one can't be read now.
        """
        try:
            return await self._inner.retrieve(context, claims)
        except ObjectUnavailable as exc:
            raise ObjectUnavailable(exc.message, exc.hint, for_good=False) from exc


class DirectoryDriver(StorageDriver):
    """Keeps payloads as files, two levels of folders deep.

    Args:
        folder: Made when the first payload is stored; for nobody but its owner.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._patience = Patience()

    def name(self) -> str:
        """Return the name by which references find this driver."""
        return DRIVER

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Write payloads; they are on the disk when this returns.

        Raises:
            StorageUnavailable: When the directory can't be written.
        """
        return [await asyncio.to_thread(self._stored, payload) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read payloads, and check that they are what was stored.

        Raises:
            StorageUnavailable: When one is missing, damaged or not to be read.
        """
        digests = [claim.claim_data.get("sha256", "") for claim in claims]
        return [await asyncio.to_thread(self._retrieved, digest) for digest in digests]

    def path(self, digest: str) -> Path:
        """Return where the object of a digest is."""
        return self.folder / digest[:2] / digest[2:4] / digest

    def _stored(self, payload: Payload) -> StorageDriverClaim:
        data = payload.SerializeToString()
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        try:
            if path.exists():
                # So that whoever deletes by age sees that it is in use.
                os.utime(path)
            else:
                _make_folder(path.parent)
                _write(path, data)
        except OSError as exc:
            raise ObjectUnavailable(
                f"A payload of {len(data):,} bytes could not be written to the storage "
                f"directory {str(self.folder)!r}: {exc.strerror or exc}.",
                "Make it writable, or set PERDURE_STORAGE_DIR.",
                for_good=False,
            ) from exc
        return StorageDriverClaim(claim_data={"sha256": digest})

    def _retrieved(self, digest: str) -> Payload:
        if not DIGEST.fullmatch(digest):
            # It would be a path: references come from histories, which others can write too.
            raise self._missing(digest, "has a name that is none of ours, and is not looked for in")
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError as exc:
            raise self._missing(digest, "is not in") from exc
        except PermissionError as exc:
            raise self._missing(digest, "may not be read by this user in") from exc
        except OSError as exc:
            raise ObjectUnavailable(
                f"The payload {digest[:12]!r}… can't be read from the storage directory "
                f"{str(self.folder)!r}: {exc.strerror or exc}.",
                "Make it readable; Runs go on then.",
                for_good=False,
            ) from exc
        if hashlib.sha256(data).hexdigest() != digest:
            raise self._missing(digest, "is damaged in")
        self._patience.found(digest)
        try:
            return Payload.FromString(data)
        except DecodeError as exc:
            raise self._missing(digest, "is damaged in") from exc

    def _missing(self, digest: str, what: str) -> ObjectUnavailable:
        return self._patience.missing(
            digest,
            f"The payload {digest[:12]!r}… {what} the storage directory {str(self.folder)!r}.",
            "This process must share PERDURE_STORAGE_DIR with the one that wrote it.",
        )


def _write(path: Path, data: bytes) -> None:
    """Put a whole file in place, or none: also when the machine dies meanwhile."""
    draft = path.with_name(f".{secrets.token_hex(16)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        draft.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _sync(path.parent)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Make sure that new names in a folder survive a loss of power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
