"""Search in the text files of one folder, and nowhere else.

No link is followed, so nothing outside the folder can be read through one. Hidden files are left
out: they hold settings and keys, which are not for a model to read.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_FILE_BYTES = 1024 * 1024
"""Larger files are skipped."""
MAX_FILES = 2000
"""Files that one search looks at."""
MAX_SECONDS = 5.0
"""Time after which one search gives what it has found."""
MAX_RESULTS = 50
"""Lines that one search returns, whatever is asked for."""
MAX_LINE_CHARACTERS = 200
"""Shown part of a matching line."""


def search_files_in(root: Path) -> Callable[..., str]:
    """Return a tool that searches the files below a folder.

    Args:
        root: The only folder that is read. May itself be a link; it is resolved once, here.

    Returns:
        The function `search_files(query, max_results=5)`. It blocks for up to `MAX_SECONDS`.

    Raises:
        NotADirectoryError: `root` is not a folder.
    """
    folder = root.resolve()
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(root)!r} is not a folder; give one that exists.")

    def search_files(query: str, max_results: int = 5) -> str:
        """Search the text files and return the lines that contain all words of the query.

        Upper and lower case are the same; the words may stand anywhere in the line and in any
        order. Parts of words match too.

        Args:
            query: One or more words.
            max_results: How many lines to return at most, from 1 to 50.

        Returns:
            One matching line a line, as "path:line number: text", or a sentence that says that
            nothing was found. A last line in parentheses says if the search ended early.

        Raises:
            ValueError: The query has no words, or `max_results` is less than 1.
        """
        words = query.casefold().split()
        if not words:
            raise ValueError("The query has no words.")
        if max_results < 1:
            raise ValueError(f"max_results must be at least 1, not {max_results}.")
        return _answer(_Search(folder), words, min(max_results, MAX_RESULTS))

    return search_files


@dataclass
class _Search:
    """One search: its limits, and why it ended early, if it did."""

    folder: Path
    ends_at: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    files: int = 0
    ended_early: str = ""

    def goes_on(self) -> bool:
        """Say whether there is time and allowance for one more file."""
        if self.files >= MAX_FILES:
            self.ended_early = f"the search ended after {MAX_FILES} files"
        elif time.monotonic() > self.ends_at:
            self.ended_early = f"the search ended after {MAX_SECONDS:g} seconds"
        return not self.ended_early


def _answer(search: _Search, words: list[str], max_results: int) -> str:
    found: list[str] = []
    for line in _matching_lines(search, words):
        if len(found) == max_results:
            search.ended_early = "there are more matching lines"
            break
        found.append(line)
    if not found:
        found.append(
            f"No line contains all of: {_printable(' '.join(words))[:MAX_LINE_CHARACTERS]}"
        )
    if search.ended_early:
        found.append(f"({search.ended_early})")
    return "\n".join(found)


def _matching_lines(search: _Search, words: list[str]) -> Iterator[str]:
    for path in _files(search):
        text = _read_text(path)
        if text is None:
            continue
        name = _printable(path.relative_to(search.folder).as_posix())
        # Not splitlines(): an editor counts only line feeds.
        for number, line in enumerate(text.split("\n"), start=1):
            folded = line.casefold()
            if all(word in folded for word in words):
                yield f"{name}:{number}: {_printable(line.strip())[:MAX_LINE_CHARACTERS]}"


def _files(search: _Search) -> Iterator[Path]:
    """Yield the visible files below the folder in a fixed order, without following links."""
    for parent, folders, names in os.walk(search.folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not search.goes_on():
                return
            if not name.startswith("."):
                search.files += 1
                yield Path(parent, name)
        if not search.goes_on():
            return


def _read_text(path: Path) -> str | None:
    """Return the text of a regular file of bounded size, or None for anything else."""
    try:
        if path.is_symlink():
            return None
        # Opened first, checked then: what is read is what was checked.
        with open(path, "rb", opener=_open_no_link) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:  # unreadable or gone by now: as if it were not there
        return None
    if len(data) > MAX_FILE_BYTES or b"\0" in data:
        return None
    return data.decode("utf-8", errors="replace")


def _open_no_link(path: str, flags: int) -> int:
    """Open a file, but no link in its place, and without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _printable(text: str) -> str:
    """Keep a name or a line on one line, and valid Unicode, whatever it is made of."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
