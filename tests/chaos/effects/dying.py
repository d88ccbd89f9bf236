"""How a worker process dies at a point: when all calls that are to die with it are there."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.effects.book import Book, Row
from tests.chaos.effects.points import Point
from tests.chaos.ledger import die

BOOK = Book(Path(os.environ["CHAOS_FOLDER"]))
LOOK_S = 0.02
BLOCKED_S = 1.5
"""How long workflow code may stand still: after 2 s the SDK takes it for stuck."""


def arrives(point: Point, arguments: Mapping[str, Any], attempt: int) -> bool:
    """Tell whether a call is to die here; it dies once, so that is written down first."""
    if arguments["point"] != point:
        return False
    return BOOK.write_once(Row("at", arguments["entry"], arguments["wave"], attempt=attempt))


async def stand(point: Point, arguments: Mapping[str, Any], attempt: int) -> None:
    """Die here, if this is the point; the event loop goes on until then."""
    if arrives(point, arguments, attempt):
        while True:
            _die_together(arguments)
            await asyncio.sleep(LOOK_S)


def stand_in_thread(
    point: Point, arguments: Mapping[str, Any], attempt: int, for_s: float = 600.0
) -> None:
    """Die here, if this is the point; after `for_s` seconds without waiting for others."""
    if arrives(point, arguments, attempt):
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            _die_together(arguments)
            time.sleep(LOOK_S)
        die()


def _die_together(arguments: Mapping[str, Any]) -> None:
    there = sum(row.kind == "at" and row.wave == arguments["wave"] for row in BOOK.rows())
    if there >= arguments["together"]:
        die()
