"""What the tools leave behind, for good: one line for each real effect.

Written by worker processes that may die at any moment, so each line is one atomic act.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Line:
    """One effect of one tool."""

    run: str
    call: str
    effect: str
    pid: int
    attempt: int
    at: float
    """Seconds since 1970."""


class Ledger:
    """A folder shared by all workers and whoever checks what they did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines = folder / "ledger"
        self._keys = folder / "keys"
        self._fired = folder / "fired"
        self._points = folder / "points.json"

    def create(self, points: Mapping[str, Any]) -> None:
        """Make the folder, with what the tools need to know of the plan."""
        self._keys.mkdir(parents=True)
        self._fired.mkdir()
        self._points.write_text(json.dumps(points))

    def points(self) -> dict[str, Any]:
        """Return what `create` was given."""
        points: dict[str, Any] = json.loads(self._points.read_text())
        return points

    def write(self, line: Line) -> None:
        """Add a line. One `write` to a file opened for appending is atomic."""
        file = os.open(self._lines, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, json.dumps(asdict(line)).encode() + b"\n")
        finally:
            os.close(file)

    def write_once(self, key: str, line: Line) -> bool:
        """Add a line unless one of that key is there; tell whether it was added."""
        draft = self._keys / f".{key}.{line.pid}.{line.attempt}"
        draft.write_text(json.dumps(asdict(line)))
        try:
            os.link(draft, self._keys / key)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def lines(self) -> list[Line]:
        """Return all lines, those with keys too."""
        written = self._lines.read_text().splitlines() if self._lines.exists() else []
        keyed = [p.read_text() for p in self._keys.iterdir() if not p.name.startswith(".")]
        return [Line(**json.loads(text)) for text in (*written, *keyed)]

    def fires(self, fault: str) -> bool:
        """Tell whether a fault is to happen now: once in all processes together."""
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            mark = os.open(self._fired / fault.replace("/", "~"), flags, 0o644)
        except FileExistsError:
            return False
        os.write(mark, str(os.getpid()).encode())
        os.close(mark)
        return True

    def fired(self) -> dict[str, int]:
        """Return the ids of all faults that happened inside workers, with the process of each."""
        marks = [(mark.name.replace("~", "/"), mark.read_text()) for mark in self._fired.iterdir()]
        return {fault: int(pid) for fault, pid in marks if pid}


def now() -> float:
    """Return the time that lines carry."""
    return time.time()


def stand_still() -> None:
    """Stop this process as `kill -STOP` does, until another one continues it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def die() -> NoReturn:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")
