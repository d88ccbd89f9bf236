"""Files in a conversation, as a Run holds them: by reference, never by their content.

Small ones travel inside the reference; larger ones are in the storage of large payloads. The
transcript's digest is over what a file *is* (name, type, size, SHA-256), not over where it is.
"""

from collections.abc import Iterable
from typing import Any, Literal

from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from pydantic import Field

MAX_FILE_BYTES = 16 * 1024 * 1024
"""One file. OpenAI takes 50 MB a request, in which base64 adds a third, and other providers
less (https://platform.openai.com/docs/guides/images-vision, …/pdf-files)."""
MAX_TEXT_FILE_BYTES = 4 * 1024 * 1024
"""One file of text; as much as the messages of a Run may hold."""
MAX_FILES_BYTES = 32 * 1024 * 1024
"""All files of one message, or of one tool's result."""
MAX_REQUEST_FILE_BYTES = 48 * 1024 * 1024
"""All files of one request to a model."""
MAX_FILES = 20
"""Files of one message, or of one tool's result."""
MAX_RUN_FILES = 200
"""Files that people give to one Run."""
MAX_NAME_CHARS = 120
MAX_URL_CHARS = 2048
INLINE_BYTES = 4 * 1024
"""Smaller files travel inside their reference, which costs less than a look into a storage. As
many as a message may have take no more than 110 KB so."""
MAX_SHOWN_TEXT_BYTES = 64 * 1024
"""Text of one file that a tool returned, for the model; as much as of any other result."""

IMAGE_TOKENS = 1_500
"""What an image takes of a model's window, at most: 85 + 170 a tile of 512 px, 8 tiles after
scaling (https://platform.openai.com/docs/guides/images-vision#calculating-costs)."""
DOCUMENT_BYTES_PER_TOKEN = 30
"""A guess: a page of a PDF is sent as text and as an image, some 2,000 tokens for 60 KB."""
AUDIO_BYTES_PER_TOKEN = 1_600
"""Ten tokens a second, at the 128 kbit/s of a usual MP3; a WAV file has fewer."""
TEXT_BYTES_PER_TOKEN = 3
"""As for all text: on the safe side."""

Kind = Literal["image", "text", "document", "audio", "other"]
"""How a model reads a file; of the others it only reads that they are there."""

IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Those that models read."""
ANY_IMAGE = "image/*"
"""An image behind a URL, which nobody here has looked at."""
AUDIO = {"audio/wav": "wav", "audio/mpeg": "mp3"}
"""And what a request calls them."""
DOCUMENTS = ("application/pdf",)
TEXTS = (
    "application/json",
    "application/javascript",
    "application/sql",
    "application/toml",
    "application/x-sh",
    "application/xml",
    "application/yaml",
    "image/svg+xml",
)
"""Besides `text/…` and what ends in `+json` or `+xml`."""


class StoredText(Frozen):
    """Where something is kept that is too large for Temporal."""

    bytes: int
    """Size; of a text, as UTF-8."""
    driver: str
    """Name of the storage driver that keeps it."""
    claim: dict[str, str]
    """What that driver finds it by."""


class FileRef(Frozen):
    """A file: what it is, and where its content is."""

    name: str
    media_type: str
    bytes: int = Field(0, exclude_if=is_nothing)
    sha256: str = Field("", exclude_if=is_nothing)
    """Of the content, in hexadecimal."""
    data: str | None = Field(None, exclude_if=is_nothing)
    """The content in base64, where it is small."""
    stored: StoredText | None = Field(None, exclude_if=is_nothing)
    """Where the content is otherwise."""
    url: str | None = Field(None, exclude_if=is_nothing)
    """Where the provider fetches it itself; then nothing else is known of it."""

    @property
    def kind(self) -> Kind:
        """How a model reads it."""
        return kind_of(self.media_type)

    @property
    def tokens(self) -> int:
        """About how much of a model's window it takes."""
        match self.kind:
            case "image":
                return IMAGE_TOKENS
            case "text":
                return self.bytes // TEXT_BYTES_PER_TOKEN
            case "document":
                return max(IMAGE_TOKENS, self.bytes // DOCUMENT_BYTES_PER_TOKEN)
            case "audio":
                return self.bytes // AUDIO_BYTES_PER_TOKEN
            case _:
                return 0

    @property
    def chars(self) -> int:
        """Characters that the Run keeps of it."""
        return len(self.data or "") + len(self.url or "") + _REFERENCE_CHARS

    @property
    def identity(self) -> dict[str, Any]:
        """What it is, wherever it is: this is what a transcript's digest is made of."""
        what: dict[str, Any] = {"name": self.name, "media_type": self.media_type}
        if self.url is not None:
            return what | {"url": self.url}
        return what | {"bytes": self.bytes, "sha256": self.sha256}

    @property
    def unplaced(self) -> "FileRef":
        """The same file without its content, whose place differs from start to start."""
        return self.model_copy(update={"data": None, "stored": None})

    @property
    def described(self) -> str:
        """The file in words, for people and models."""
        if self.url is not None:
            return f"{self.name} ({self.url})"
        return f"{self.name} ({self.media_type}, {self.bytes:,} bytes)"


_REFERENCE_CHARS = 300
"""Of a reference itself, with a claim."""


def kind_of(media_type: str) -> Kind:
    """Return how a model reads files of a type."""
    if media_type.startswith("text/") or media_type in TEXTS:
        return "text"
    if media_type.endswith(("+json", "+xml")):
        return "text"
    if media_type in IMAGES or media_type == ANY_IMAGE:
        return "image"
    if media_type in DOCUMENTS:
        return "document"
    return "audio" if media_type in AUDIO else "other"


def is_shown(file: FileRef) -> bool:
    """Tell whether a model is shown a file that a tool returned."""
    if file.kind == "text":
        return file.bytes <= MAX_SHOWN_TEXT_BYTES
    return file.kind != "other"


def chars(files: Iterable[FileRef]) -> int:
    """Return how many characters a Run keeps of some files."""
    return sum(file.chars for file in files)


def shown_of(files: Iterable[FileRef]) -> tuple[FileRef, ...]:
    """Return those of the files of some calls that the model is shown behind their results."""
    return tuple(file for file in files if is_shown(file))


def fitting(files: Iterable[FileRef], tokens: int) -> tuple[FileRef, ...]:
    """Return the first of some files, as many as fit so many tokens."""
    found: list[FileRef] = []
    for file in files:
        tokens -= file.tokens
        if tokens < 0:
            break
        found.append(file)
    return tuple(found)
