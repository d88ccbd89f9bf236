"""Files that a tool returns: kept by reference, and named in the text that the model reads."""

import logging
from typing import Any

from temporalio import activity

from perdure.runs.errors import StorageUnavailable
from perdure.runs.files import MAX_FILES, MAX_FILES_BYTES, FileRef, is_shown
from perdure.runs.given_file import File, Keep, kept

log = logging.getLogger(__name__)


async def without_files(value: Any, keep: Keep) -> tuple[Any, tuple[FileRef, ...]]:
    """Return what a tool returned as text or JSON, and its files, kept.

    A file may be the whole value, or stand in a list or as a value of an object. In its place
    stands what the model is told of it; a list that is all text then becomes one text.

    Args:
        value: What the tool returned.
        keep: Stores content that is large.
    """
    if not has_files(value):
        return value, ()
    told, files = await _kept(_items(value), keep)
    if isinstance(value, dict):
        return dict(zip(value, told, strict=True)), files
    if all(isinstance(each, str) for each in told):
        return "\n".join(told), files
    return told, files


def has_files(value: Any) -> bool:
    """Tell whether there are files in what a tool returned."""
    return any(isinstance(item, File) for item in _items(value))


def _items(value: Any) -> list[Any]:
    match value:
        case File():
            return [value]
        case list() | tuple():
            return list(value)
        case dict():
            return list(value.values())
        case _:
            return []


async def _kept(items: list[Any], keep: Keep) -> tuple[list[Any], tuple[FileRef, ...]]:
    told: list[Any] = []
    files: list[FileRef] = []
    size = 0
    for item in items:
        if not isinstance(item, File):
            told.append(item)
            continue
        size += len(item.data)
        if len(files) == MAX_FILES or size > MAX_FILES_BYTES:
            size -= len(item.data)
            told.append(f"[The file {item.name}: not kept, the result has too many or too large.]")
            continue
        try:
            file = await kept(item, keep, activity.info().workflow_id or "")
        except StorageUnavailable as exc:
            # The tool has run: what else it brought is more than nothing.
            log.warning("A file is lost.", extra={"code": exc.code, "content": exc.message})
            told.append(f"[The file {item.name}: it could not be kept.]")
            continue
        files.append(file)
        how = "shown below" if is_shown(file) else "kept for the user, not shown here"
        told.append(f"[The file {file.described}: {how}.]")
    return told, tuple(files)
