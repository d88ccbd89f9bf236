"""What type a file is: by its content first, then by its name; a claim that is wrong is refused."""

import re
from pathlib import PurePosixPath

from perdure.runs.errors import InvalidRequest
from perdure.runs.files import AUDIO, DOCUMENTS, IMAGES, kind_of

UNKNOWN = "application/octet-stream"
PLAIN = "text/plain"
MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")
ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "application/x-yaml": "application/yaml",
    "text/json": "application/json",
}
BEGINNINGS: dict[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\xff\xf2": "audio/mpeg",
}
"""What files of these types begin with."""
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
"""The same, from the ninth byte of a RIFF file on."""
RECOGNISED = (*IMAGES, *DOCUMENTS, *AUDIO)
"""Types that the content itself tells."""
SUFFIXES = {
    ".csv": "text/csv",
    ".css": "text/css",
    ".htm": "text/html",
    ".html": "text/html",
    ".js": "application/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".sh": "application/x-sh",
    ".sql": "application/sql",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".tsv": "text/tab-separated-values",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".mp3": "audio/mpeg",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".zip": "application/zip",
}
"""Of names, where nobody says the type; the system's own tables differ from machine to machine."""


def checked_type(name: str, declared: str, data: bytes) -> str:
    """Return the type of a file.

    Args:
        name: Of the file; what it ends in counts where the content tells nothing.
        declared: By whoever gives it; empty when unknown.
        data: The content.

    Raises:
        InvalidRequest: When the content is not of the type.
    """
    told = declared.partition(";")[0].strip().lower()
    told = ALIASES.get(told, told)
    if told and not MEDIA_TYPE.fullmatch(told):
        raise InvalidRequest(f"{declared[:80]!r} is no media type.", hint="Write type/subtype.")
    found = recognised(data)
    suffix = SUFFIXES.get(PurePosixPath(name.lower()).suffix)
    if told in ("", UNKNOWN):
        # A JPEG named .png is a JPEG; a page of HTML named .png is a mistake.
        if suffix in RECOGNISED and found is None:
            raise _mismatch(name, suffix, data)
        if found is not None:
            return found
        if is_text(data):
            return suffix if suffix is not None and kind_of(suffix) == "text" else PLAIN
        return UNKNOWN if suffix is None or kind_of(suffix) == "text" else suffix
    if told in RECOGNISED and found != told:
        raise _mismatch(name, told, data)
    if kind_of(told) == "text" and not is_text(data):
        raise _mismatch(name, told, data)
    return told


def _mismatch(name: str, told: str, data: bytes) -> InvalidRequest:
    found = recognised(data) or ("text" if is_text(data) else "something else")
    text = " in UTF-8" if kind_of(told) == "text" else ""
    return InvalidRequest(
        f"The file {name!r} is no {told}{text}: by its content it is {found}.",
        hint="Give the type that it is, or none.",
    )


def recognised(data: bytes) -> str | None:
    """Return the type that the content tells by how it begins."""
    if data.startswith(b"RIFF"):
        return RIFF.get(data[8:12])
    return next((kind for begin, kind in BEGINNINGS.items() if data.startswith(begin)), None)


def is_text(data: bytes) -> bool:
    """Tell whether content is text: UTF-8 without NUL."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
