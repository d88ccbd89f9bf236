"""Search in the text files of one folder, and nowhere else (see `confined`)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure.agents.tool import Tool, tool
from perdure.tools.confined import Confined

MAX_FILE_BYTES = 1024 * 1024
"""Larger files are skipped."""
MAX_FILES = 2000
"""Files and folders that one search looks at."""
MAX_SECONDS = 5.0
"""Time after which one search gives what it has found."""
MAX_RESULTS = 50
"""Lines that one search returns, whatever is asked for."""
MAX_LINE_CHARACTERS = 200
"""Shown part of a matching line."""


def search_tool(folder: Path | str, *, prefix: str = "") -> Tool[..., str]:
    """Return a tool that searches the text files below a folder.

    Args:
        folder: The only folder that is read.
        prefix: Put before the tool's name, where a worker has several such tools.

    Returns:
        The tool `search_files(query, max_results=5)`. It blocks for up to `MAX_SECONDS`.

    Raises:
        NotADirectoryError: `folder` is not a folder.
    """
    confined = Confined(folder)

    @tool(name=f"{prefix}search_files", effect="read")
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
        return _answer(_Search(confined), words, min(max_results, MAX_RESULTS))

    return search_files


@dataclass
class _Search:
    """One search: its limits, and why it ended early, if it did."""

    folder: Confined
    ends_at: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)
    files: int = 0
    ended_early: str = ""

    def goes_on(self) -> bool:
        """Say whether there is time and allowance for one more file, and count it."""
        if self.files >= MAX_FILES:
            self.ended_early = f"the search ended after {MAX_FILES} files"
        elif time.monotonic() > self.ends_at:
            self.ended_early = f"the search ended after {MAX_SECONDS:g} seconds"
        self.files += 1
        return not self.ended_early


def _answer(search: _Search, words: list[str], max_results: int) -> str:
    found: list[str] = []
    for line in _matching_lines(search, words):
        if len(found) == max_results:
            search.ended_early = "there are more matching lines"
            break
        found.append(line)
    if not found:
        found.append(f"No line contains all of: {printable(' '.join(words))[:MAX_LINE_CHARACTERS]}")
    if search.ended_early:
        found.append(f"({search.ended_early})")
    return "\n".join(found)


def _matching_lines(search: _Search, words: list[str]) -> Iterator[str]:
    for path, data in search.folder.walk(search.goes_on, MAX_FILE_BYTES):
        if b"\0" in data:
            continue
        # Not splitlines(): an editor counts only line feeds.
        for number, line in enumerate(data.decode(errors="replace").split("\n"), start=1):
            folded = line.casefold()
            if all(word in folded for word in words):
                shown = printable(line.strip())[:MAX_LINE_CHARACTERS]
                yield f"{printable(path)}:{number}: {shown}"


def printable(text: str) -> str:
    """Keep a name or a line on one line, and valid Unicode, whatever it is made of."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
