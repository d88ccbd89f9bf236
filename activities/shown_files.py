"""What a model is shown of the files in a conversation: the last thing done before the wire.

A transcript names files; here their content is looked up, checked, and written as the parts that
the Chat Completions reference has for them. Text goes out as text, which every model reads.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.failure import failed
from perdure.activities.lru import ByteLru
from perdure.activities.pace import BYTES_PER_TOKEN
from perdure.activities.transcripts import Transcript
from perdure.agents.profile import ModelProfile
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ConfigurationError, ErrorCode, RunError, error
from perdure.runs.files import (
    AUDIO,
    MAX_REQUEST_FILE_BYTES,
    MAX_SHOWN_TEXT_BYTES,
    FileRef,
    StoredText,
)
from perdure.runs.messages import canonical_json, digest

HAS_FILES = b'{"role":"user","files":'
"""How the wire form of a message with files begins."""
FILES_CACHE_BYTES = 64 * 1024 * 1024
"""Memory of one worker for messages with files, as they were sent last."""

Read = Callable[[StoredText], Awaitable[bytes]]
"""Reads what is kept in the storage of large payloads."""
Part = str | dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A transcript as a model is shown it.

    Attributes:
        messages: As many as the transcript has, in wire form.
        surplus: Bytes in them that stand for no text, beyond what they take of a model's window.
    """

    messages: Sequence[bytes]
    surplus: int = 0


class ShownFiles:
    """Files for model calls of one worker.

    Args:
        read: Reads stored content.
        max_bytes: Memory for what was sent last.
    """

    def __init__(self, read: Read, max_bytes: int = FILES_CACHE_BYTES) -> None:
        self._read = read
        self._rendered: ByteLru[bytes] = ByteLru(max_bytes)
        self.reads = 0
        """Contents that had to be read from the storage."""

    async def shown(
        self, transcript: Transcript, profile: ModelProfile, request: ModelRequest
    ) -> Shown:
        """Return the messages of a transcript with their files in them.

        Raises:
            ApplicationError: `unsupported_file`, when the Run's input comes with one that the
                model can't read; `context_overflow`, when there are too many for one request;
                `storage_unavailable`, when content is missing.
        """
        found = [at for at, each in enumerate(transcript.wired) if each.startswith(HAS_FILES)]
        if not found:
            return Shown(transcript.wired)
        messages, surplus = list(transcript.wired), 0
        known = {at: _files(transcript, at) for at in found}
        is_summed_up = request.purpose == "compact"
        if not is_summed_up:
            _check(transcript, known, profile, request)
        for at in found:
            if is_summed_up:
                messages[at] = await self._as_text(transcript.wired[at], known[at])
                continue
            messages[at] = await self._message(transcript.wired[at], known[at], profile)
            takes = len(transcript.wired[at]) + sum(f.tokens for f in known[at]) * BYTES_PER_TOKEN
            surplus += max(0, len(messages[at]) - takes)
        return Shown(messages, surplus)

    async def _message(
        self, wired: bytes, files: Sequence[FileRef], profile: ModelProfile
    ) -> bytes:
        name = f"{digest(wired)}:{profile.images}:{profile.documents}:{profile.audio}"
        rendered = self._rendered.get(name)
        if rendered is None:
            parts = [await self._part(file, profile) for file in files]
            rendered = await asyncio.to_thread(_written, wired, parts)
            self._rendered.keep(name, rendered, len(rendered))
        return rendered

    async def _part(self, file: FileRef, profile: ModelProfile) -> Part:
        if not reads(profile, file):
            return f"[The file {file.described}: this model can't read it.]"
        if file.url is not None:
            return {"type": "image_url", "image_url": {"url": file.url}}
        content = await self._content(file)
        if file.kind == "text":
            return _text_part(file, content)
        return await asyncio.to_thread(_binary_part, file, content)

    async def _as_text(self, wired: bytes, files: Sequence[FileRef]) -> bytes:
        parts: list[Part] = []
        for file in files:
            if file.kind == "text" and file.bytes <= MAX_SHOWN_TEXT_BYTES:
                parts.append(_text_part(file, await self._content(file)))
            else:
                parts.append(f"[The file {file.described}.]")
        return _written(wired, parts)

    async def _content(self, file: FileRef) -> bytes:
        """Return the content, which is what the reference says or nothing."""
        try:
            content = b"" if file.data is None else base64.b64decode(file.data, validate=True)
            if file.stored is not None:
                self.reads += 1
                content = await self._read(file.stored)
        except ApplicationError as exc:
            # Said as all failures of an activity are: one line in the log, no traceback.
            why = RunError.model_validate(exc.details[0])
            attempt = activity.info().attempt
            raise failed(why.model_copy(update={"attempt": attempt})) from None
        except ConfigurationError as exc:
            why = error(ErrorCode.STORAGE_UNAVAILABLE, exc.message, hint=exc.hint)
            raise failed(why) from None
        except ValueError:
            content = b""
        if await asyncio.to_thread(_sha256, content) != file.sha256:
            damaged = f"The content of the file {file.name!r} is not what was given."
            raise failed(error(ErrorCode.STORAGE_UNAVAILABLE, damaged))
        return content


def reads(profile: ModelProfile, file: FileRef) -> bool:
    """Tell whether a model reads a file, as far as its profile says."""
    match file.kind:
        case "text":
            return True
        case "image":
            return profile.images
        case "document":
            return profile.documents
        case "audio":
            return profile.audio
        case _:
            return False


def _files(transcript: Transcript, at: int) -> list[FileRef]:
    named = [FileRef.model_validate(each) for each in json.loads(transcript.wired[at])["files"]]
    # By name and type as the message has them: the same content may be known by another name.
    return [_placed(file, transcript.places) for file in named]


def _placed(file: FileRef, places: Mapping[str, FileRef]) -> FileRef:
    place = places.get(file.sha256)
    if place is None:
        return file
    return file.model_copy(update={"data": place.data, "stored": place.stored})


def _check(
    transcript: Transcript,
    known: Mapping[int, Sequence[FileRef]],
    profile: ModelProfile,
    request: ModelRequest,
) -> None:
    """Refuse what the provider would, with better words.

    Only what the Run has begun with is refused. Of what a tool returned, or was said to another
    model, this one is told that it is there: a conversation must be able to go on.
    """
    given = known.get(len(transcript.wired) - 1, ()) if request.turn == 1 else ()
    for file in given:
        if not reads(profile, file):
            why = f"The model of agent {request.agent!r} can't read {file.described}."
            raise failed(error(ErrorCode.UNSUPPORTED_FILE, why))
    size = sum(file.bytes for files in known.values() for file in files)
    if size > MAX_REQUEST_FILE_BYTES:
        why = (
            f"The files of the conversation have {size:,} bytes; one request holds "
            f"{MAX_REQUEST_FILE_BYTES:,}."
        )
        raise failed(error(ErrorCode.CONTEXT_OVERFLOW, why))


def _text_part(file: FileRef, content: bytes) -> str:
    name = json.dumps(file.name, ensure_ascii=False)
    return f"File {name}:\n{content.decode('utf-8-sig', 'replace')}"


def _binary_part(file: FileRef, content: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(content).decode()
    if file.kind == "audio":
        heard = {"data": encoded, "format": AUDIO[file.media_type]}
        return {"type": "input_audio", "input_audio": heard}
    data = f"data:{file.media_type};base64,{encoded}"
    if file.kind == "image":
        return {"type": "image_url", "image_url": {"url": data}}
    return {"type": "file", "file": {"filename": file.name, "file_data": data}}


def _written(wired: bytes, parts: Sequence[Part]) -> bytes:
    """Return a message with its files: as one text where they all are text."""
    said = json.loads(wired)["content"]
    every: list[Part] = [said, *parts] if said else [*parts]
    texts = [part for part in every if isinstance(part, str)]
    if len(texts) == len(every):
        return canonical_json({"role": "user", "content": "\n\n".join(texts)})
    content = [{"type": "text", "text": p} if isinstance(p, str) else p for p in every]
    return canonical_json({"role": "user", "content": content})


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
