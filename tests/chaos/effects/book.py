"""What calls leave behind in one file: that they began, where they died, what they did.

Written by worker processes that may die at any moment: one `write` to a file opened for
appending is atomic, and a lock ends with its process.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tests.chaos.ledger import now


@dataclass(frozen=True)
class Row:
    """One thing that happened to one call."""

    kind: Literal["began", "at", "effect"]
    """An attempt was picked up; it stands at its point, where it dies; it had its effect."""
    entry: str
    wave: str = ""
    key: str = ""
    pid: int = 0
    attempt: int = 0
    at: float = 0.0
    """Seconds since 1970."""

    @property
    def names(self) -> tuple[str, str]:
        """What a row is known by that is to be written once: its key, if it has one."""
        return self.kind, self.key or self.entry


class Book:
    """The file, shared by all workers and whoever checks what they did."""

    def __init__(self, folder: Path) -> None:
        self._rows = folder / "rows"
        self._lock = folder / "lock"

    def rows(self) -> list[Row]:
        """Return all rows, in the order they were written."""
        text = self._rows.read_text() if self._rows.exists() else ""
        whole = text.rpartition("\n")[0]  # the last one may be half there while it is written
        return [Row(**json.loads(line)) for line in whole.splitlines()]

    def write(self, row: Row) -> None:
        """Add a row."""
        stamped = asdict(row) | {"pid": os.getpid(), "at": now()}
        file = os.open(self._rows, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, json.dumps(stamped).encode() + b"\n")
        finally:
            os.close(file)

    def write_once(self, row: Row) -> bool:
        """Add a row unless there is one of its kind and key; tell whether it was added."""
        with self._locked():
            if any(known.names == row.names for known in self.rows()):
                return False
            self.write(row)
            return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self._lock, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)
