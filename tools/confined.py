"""One folder, and no way out of it.

Every path is walked from the folder down, name by name, each opened relative to the one before
and none through a link. So what is checked is what is opened, whatever others do to the folder
meanwhile. Nothing else here may open a path.

A hard link can't be told from its file: keep those whom you don't trust from making them.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from perdure.runs.errors import ErrorCode, ToolRefused

MAX_PATH_BYTES = 1024
"""Length of a path that a model may name."""
MAX_NAME_BYTES = 255
MAX_NAMES = 10_000
"""Names of one folder that are looked at."""
MAX_DEPTH = 40
"""Folders in folders; each one on the way is an open file."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Not to wait for the writer of a pipe, nor to get a terminal."""
_LINK = "it is a link, and links are not followed"


class Confined:
    """The folder that a tool may use, as models name what is in it.

    Hidden files are no part of it: they hold settings and keys, and what programs start.

    Args:
        root: The folder. May itself be a link; it is resolved once, here.

    Raises:
        NotADirectoryError: `root` is not a folder.
    """

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root).resolve()
        if not self._root.is_dir():
            raise NotADirectoryError(f"{str(root)!r} is not a folder; give one that exists.")

    @contextmanager
    def folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder for as long as the block lasts.

        Args:
            path: As a model names it; "." is the confined folder itself.
            make: Make what is missing.

        Raises:
            ToolRefused: `path_denied`.
            OSError: It is not there, or not a folder.
        """
        with self._opened(_names(path), path, make) as fd:
            yield fd

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that a path's last name is in, and give both.

        Raises:
            ToolRefused: `path_denied`.
            OSError: It is not there, or not a folder.
        """
        names = _names(path)
        if not names:
            raise _denied(path, "it is the folder itself")
        with self._opened(names[:-1], path, make) as fd:
            yield fd, names[-1]

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the bytes of a regular file.

        Raises:
            ToolRefused: `path_denied`.
            OSError: It is not there, or can't be read.
            ValueError: It has more than `max_bytes`.
        """
        with self.parent(path) as (fd, name):
            try:
                data = read_file(fd, name, max_bytes)
            except _NotRegular as exc:
                raise _denied(path, str(exc)) from None
        if len(data) > max_bytes:
            raise ValueError(f"{path!r} is larger than {max_bytes} bytes.")
        return data

    def walk(self, goes_on: Callable[[], bool], max_bytes: int) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the bytes of each file, in a fixed order; skip what can't be read.

        Args:
            goes_on: Asked before every file and folder; the walk ends when it says no.
            max_bytes: Larger files are skipped.
        """
        with self.folder(".") as fd:
            yield from _walk(fd, "", goes_on, max_bytes)

    @contextmanager
    def _opened(self, names: list[str], path: str, make: bool) -> Iterator[int]:
        fd = os.open(self._root, _FOLDER)
        try:
            for name in names:
                if make:
                    _make(fd, name)
                inner = _inside(fd, name, path)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


class _NotRegular(Exception):
    """What is in the place of a file is a link, a device, a pipe or a folder."""


def read_file(folder: int, name: str, max_bytes: int) -> bytes:
    """Return the bytes of a regular file, at most one more than `max_bytes`."""
    # Looked at first, since opening alone does something to some devices; then once more.
    _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise _NotRegular(_LINK) from None
        raise
    with open(fd, "rb") as file:
        _check_regular(os.fstat(file.fileno()).st_mode)
        return file.read(max_bytes + 1)


def entries(folder: int) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Return the visible files and the visible folders of an open folder, sorted by name."""
    with os.scandir(folder) as found:
        seen = sorted(islice(found, MAX_NAMES), key=lambda entry: entry.name)
    seen = [entry for entry in seen if not entry.name.startswith(".")]
    files = [entry for entry in seen if entry.is_file(follow_symlinks=False)]
    return files, [entry for entry in seen if entry.is_dir(follow_symlinks=False)]


def _walk(
    folder: int, prefix: str, goes_on: Callable[[], bool], max_bytes: int
) -> Iterator[tuple[str, bytes]]:
    files, folders = entries(folder)
    for entry in files:
        if not goes_on():
            return
        try:
            data = read_file(folder, entry.name, max_bytes)
        except (OSError, _NotRegular):  # unreadable, gone or another by now: as if not there
            continue
        if len(data) <= max_bytes:
            yield prefix + entry.name, data
    for entry in folders:
        if prefix.count("/") >= MAX_DEPTH or not goes_on():
            return
        try:
            inner = os.open(entry.name, _FOLDER, dir_fd=folder)
        except OSError:
            continue
        try:
            yield from _walk(inner, f"{prefix}{entry.name}/", goes_on, max_bytes)
        finally:
            os.close(inner)


def _names(path: str) -> list[str]:
    """Cut a path into names, of which none leads up, and none is odd."""
    try:
        length = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise _denied(path, "it is not Unicode") from None
    if length > MAX_PATH_BYTES:
        raise _denied(path, f"it is longer than {MAX_PATH_BYTES} bytes")
    if not path.isprintable():
        raise _denied(path, "it has characters that can't be printed")
    if path.startswith("/"):
        raise _denied(path, "it is absolute; name files relative to the folder")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise _denied(path, "it leads up")
    if any(name.startswith(".") for name in names):
        raise _denied(path, "it is hidden")
    if any(len(os.fsencode(name)) > MAX_NAME_BYTES for name in names):
        raise _denied(path, f"a name in it is longer than {MAX_NAME_BYTES} bytes")
    if len(names) > MAX_DEPTH:
        raise _denied(path, f"it is more than {MAX_DEPTH} folders deep")
    return names


def _inside(folder: int, name: str, path: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        # Systems differ in the error of a link, so ask; for the words only, nothing is opened.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _denied(path, _LINK) from None
        raise


def _make(folder: int, name: str) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return


def _check_regular(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise _NotRegular(_LINK)
    if not stat.S_ISREG(mode):
        raise _NotRegular("it is not a regular file")


def _denied(path: str, why: str) -> ToolRefused:
    return ToolRefused(f"{path[:200]!r} is refused: {why}.", code=ErrorCode.PATH_DENIED)
