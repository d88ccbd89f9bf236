"""`File`: what a caller or a tool hands in, checked before anything is done with it.

Workflow code never meets one: a Run holds `FileRef`s. `from_path` is the one place in `runs`
that reads anything, at the caller's.
"""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self
from urllib.parse import unquote, urlsplit

from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.files import (
    ANY_IMAGE,
    INLINE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_FILES_BYTES,
    MAX_NAME_CHARS,
    MAX_TEXT_FILE_BYTES,
    MAX_URL_CHARS,
    FileRef,
    StoredText,
    kind_of,
)
from perdure.runs.media_types import checked_type
from perdure.runs.messages import without_lone_surrogates


@dataclass(frozen=True)
class File:
    """A file for a Run, or from a tool.

    Attributes:
        name: Its last part only, without control characters.
        media_type: Found out from content and name when not given.
        data: The content; none where there is a URL.
        url: Of an image that the provider fetches itself.

    Raises:
        InvalidRequest: When it is empty or too large, or the content is not of the type.
    """

    name: str
    media_type: str = ""
    data: bytes = b""
    url: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", safe_name(self.name))
        if self.url is not None:
            object.__setattr__(self, "media_type", ANY_IMAGE)
            _check_url(self.url)
            return
        if not isinstance(self.data, bytes | bytearray | memoryview):
            raise InvalidRequest(
                f"The content of {self.name!r} is {type(self.data).__name__}, no bytes.",
                hint="Encode text first.",
            )
        data = bytes(self.data)
        object.__setattr__(self, "data", data)
        _check_size(self.name, data)
        object.__setattr__(self, "media_type", checked_type(self.name, self.media_type, data))
        if kind_of(self.media_type) == "text" and len(data) > MAX_TEXT_FILE_BYTES:
            raise _too_large(f"The text file {self.name!r}", len(data), MAX_TEXT_FILE_BYTES)

    @classmethod
    def from_path(cls, path: str | Path, media_type: str = "") -> Self:
        """Read a file, now.

        Raises:
            InvalidRequest: When it can't be read, or not be used.
        """
        try:
            with Path(path).open("rb") as opened:
                # One byte more than is allowed tells; what is larger still need not be read.
                data = opened.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
            shown = without_lone_surrogates(str(path))
            raise InvalidRequest(f"The file {shown!r} can't be read: {why}.") from exc
        return cls(Path(path).name, media_type, data)

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "", name: str = "file") -> Self:
        """Make a file of its content.

        Raises:
            InvalidRequest: When it can't be used.
        """
        return cls(name, media_type, data)

    @classmethod
    def from_url(cls, url: str, name: str = "") -> Self:
        """Name an image that the provider fetches itself, each time it is asked.

        Nothing here looks at it: whether it is there, and an image, shows in the answer.

        Raises:
            InvalidRequest: When it is no http or https URL.
        """
        return cls(name or _last_part(url), url=url)

    def reference(self) -> FileRef:
        """Return what a Run knows of it, its content not included unless that is small."""
        if self.url is not None:
            return FileRef(name=self.name, media_type=self.media_type, url=self.url)
        small = len(self.data) <= INLINE_BYTES
        return FileRef(
            name=self.name,
            media_type=self.media_type,
            bytes=len(self.data),
            sha256=hashlib.sha256(self.data).hexdigest(),
            data=base64.b64encode(self.data).decode() if small else None,
        )


Keep = Callable[[bytes, str], Awaitable[StoredText]]
"""Stores something of a Run, given its id."""


async def kept(file: File, keep: Keep, run_id: str) -> FileRef:
    """Return what a Run knows of a file, with its content kept somewhere.

    Raises:
        StorageUnavailable: When it can't be.
    """
    known = file.reference()
    if known.data is not None or known.url is not None:
        return known
    return known.model_copy(update={"stored": await keep(file.data, run_id)})


def checked_files(files: Sequence[File]) -> tuple[File, ...]:
    """Return the files of one message.

    Raises:
        InvalidRequest: When they are too many or too large, or of a kind that no model reads.
    """
    given = tuple(files)
    for file in given:
        if not isinstance(file, File):
            raise InvalidRequest(
                f"{type(file).__name__} is no file.",
                hint="Use File.from_path, File.from_bytes or File.from_url.",
            )
        if kind_of(file.media_type) == "other":
            raise InvalidRequest(
                f"No model reads {file.name!r}: it is {file.media_type}.",
                hint="Give images (PNG, JPEG, WebP, GIF), text in UTF-8, PDF, WAV or MP3; "
                "let a tool read anything else.",
            )
    if len(given) > MAX_FILES:
        raise InvalidRequest(
            f"There are {len(given):,} files; {MAX_FILES} are allowed.",
            hint="Give fewer, or let a tool read them.",
            code=ErrorCode.PAYLOAD_TOO_LARGE,
        )
    size = sum(len(file.data) for file in given)
    if size > MAX_FILES_BYTES:
        raise _too_large("All files together", size, MAX_FILES_BYTES)
    return given


def safe_name(given: str) -> str:
    """Return a name that is one: no folders, nothing that a terminal or a file system obeys."""
    last = re.split(r"[/\\]", without_lone_surrogates(given))[-1]
    shown = "".join(char if char.isprintable() else "_" for char in last).strip(" .")
    if len(shown) > MAX_NAME_CHARS:
        stem, suffix = PurePosixPath(shown).stem, PurePosixPath(shown).suffix[:20]
        shown = stem[: MAX_NAME_CHARS - len(suffix)] + suffix
    return shown or "file"


def _check_size(name: str, data: bytes) -> None:
    if not data:
        raise InvalidRequest(f"The file {name!r} is empty.", hint="Leave it out.")
    if len(data) > MAX_FILE_BYTES:
        raise _too_large(f"The file {name!r}", len(data), MAX_FILE_BYTES)


def _too_large(what: str, size: int, allowed: int) -> InvalidRequest:
    return InvalidRequest(
        f"{what} has {size:,} bytes or more; {allowed:,} are allowed.",
        hint="Give less, or let a tool read it.",
        code=ErrorCode.PAYLOAD_TOO_LARGE,
    )


def _check_url(url: str) -> None:
    bad = InvalidRequest(
        f"{without_lone_surrogates(url[:80])!r} is no URL that a provider can fetch.",
        hint="Give an http or https URL without a password, or the file itself.",
    )
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise bad
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as exc:
        raise bad from exc
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc:
        raise bad


def _last_part(url: str) -> str:
    try:
        return unquote(urlsplit(url).path).rsplit("/", 1)[-1] or "image"
    except ValueError:
        return "image"
