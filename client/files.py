"""Files of Runs: put where workers find them, listed, and given back."""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import Client

from perdure.client import follow
from perdure.engine.stored_text import StoredTexts
from perdure.runs.errors import ErrorCode, InvalidRequest, StorageUnavailable
from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.given_file import File, kept
from perdure.runs.run import Run

MOST_NAMES = 1_000
"""Files of one name that may be saved to one folder."""


class RunFile(Frozen):
    """One file of a Run."""

    number: int
    """From 1, in the order of the conversation."""
    source: str
    """`input`, `message`, or the tool that returned it."""
    file: FileRef


async def placed(client: Client, files: Sequence[File], run_id: str) -> tuple[FileRef, ...]:
    """Put the files of a Run where its workers find them; small ones go along with it.

    Raises:
        StorageUnavailable: When a large one can't be written.
    """
    if not files:
        return ()
    keep = StoredTexts(client.data_converter, client.namespace).keep
    return tuple([await kept(file, keep, run_id) for file in files])


class Filing:
    """The part of `RunManager` that gives files back."""

    client: Client

    async def files(self, run_id: str) -> list[RunFile]:
        """Return what a Run was given, and what its tools returned, besides text.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        return files_of(await follow.latest(self.client, run_id))

    async def file(self, run_id: str, which: int | str) -> File:
        """Return a file with its content.

        Args:
            run_id: Which Run.
            which: Its number, as `files` has it, or its name; of several, the latest.

        Raises:
            RunNotFound: When there is no such Run.
            InvalidRequest: When it has no such file, or the content is behind a URL.
            StorageUnavailable: When the content is not where this process looks for it.
            EngineUnavailable: When Temporal does not answer.
        """
        for each in reversed(await self.files(run_id)):
            if which in (each.number, each.file.name):
                return await content(self.client, each.file)
        raise InvalidRequest(
            f"Run {run_id!r} has no file {which!r}.", hint=f"`perdure files {run_id}` lists them."
        )


def files_of(run: Run) -> list[RunFile]:
    """Return the files of a Run in the order of the conversation."""
    found = [(0, "input", file) for file in run.input_files]
    said = [(each.after_step, "message", f) for each in run.follow_ups for f in each.files]
    brought = [(call.step or 0, call.name, f) for call in run.tool_calls for f in call.files]
    found += sorted([*said, *brought], key=lambda each: each[0])
    return [
        RunFile(number=number, source=source, file=file)
        for number, (_, source, file) in enumerate(found, start=1)
    ]


async def content(client: Client, file: FileRef) -> File:
    """Return a file with its content.

    Raises:
        InvalidRequest: When that is behind a URL.
        StorageUnavailable: When it is missing, or not what was given.
    """
    if file.url is not None:
        raise InvalidRequest(f"The content of {file.name!r} is at {file.url}.")
    if file.stored is not None:
        stored = StoredTexts(client.data_converter, client.namespace)
        data = await stored.read_bytes(file.stored)
    else:
        data = base64.b64decode(file.data or "")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise StorageUnavailable(
            f"The content of {file.name!r} is not what was given.",
            code=ErrorCode.STORAGE_UNAVAILABLE,
        )
    return File(file.name, file.media_type, data)


def save(file: File, folder: Path) -> Path:
    """Write a file into a folder under a name that is free there, and return where it is.

    Raises:
        InvalidRequest: When it can't be written.
    """
    stem, suffix = Path(file.name).stem, Path(file.name).suffix
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, MOST_NAMES + 1):
            path = folder / (file.name if number == 1 else f"{stem}-{number}{suffix}")
            try:
                with path.open("xb") as opened:
                    opened.write(file.data)
            except FileExistsError:
                continue
            return path
    except OSError as exc:
        raise InvalidRequest(
            f"{file.name!r} can't be written to {str(folder)!r}: {exc.strerror or exc}."
        ) from exc
    raise InvalidRequest(f"{str(folder)!r} has {MOST_NAMES:,} files named {file.name!r}.")
