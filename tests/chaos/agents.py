"""The agent of the chaos Runs: its tools write to the ledger; some stop or kill their worker.

Loaded by worker processes. What a call returns, how long it takes and where it ends its worker
is in the plan, of which the folder in `CHAOS_FOLDER` holds the part about calls.
"""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from temporalio import activity

from perdure import Agent, tool, tool_context
from tests.chaos.ledger import Ledger, Line, die, now, stand_still
from tests.chaos.plan import Fault

LEDGER = Ledger(Path(os.environ["CHAOS_FOLDER"]))
POINTS: dict[str, dict[str, Any]] = LEDGER.points()


def _point(run: str, entry: str, kind: Fault) -> bool:
    fault = f"{run}/{entry}"
    return POINTS[fault].get("fault") == kind and LEDGER.fires(fault)


def _line(run: str, entry: str, effect: str) -> Line:
    return Line(run, entry, effect, os.getpid(), activity.info().attempt, now())


def _before(run: str, entry: str) -> float:
    if _point(run, entry, Fault.KILL_BEFORE_EFFECT):
        die()
    if _point(run, entry, Fault.STOP_BEFORE_EFFECT):
        stand_still()
    takes_s: float = POINTS[f"{run}/{entry}"]["takes_s"]
    return takes_s


def _after(run: str, entry: str) -> str:
    if _point(run, entry, Fault.KILL_AFTER_EFFECT):
        die()
    known = POINTS[f"{run}/{entry}"]
    if _point(run, entry, Fault.KILL_AFTER_RESULT):
        threading.Timer(known["for_s"], die).start()
    return str(known["value"])


@tool(effect="read")
async def look(run: str, entry: str) -> str:
    """Look an entry up."""
    takes_s = _before(run, entry)
    await asyncio.sleep(takes_s / 2)
    LEDGER.write(_line(run, entry, "read"))
    await asyncio.sleep(takes_s / 2)
    return _after(run, entry)


@tool(effect="keyed")
def put(run: str, entry: str) -> str:
    """Put an entry down, under its own key."""
    takes_s = _before(run, entry)
    time.sleep(takes_s / 2)
    LEDGER.write_once(tool_context().idempotency_key, _line(run, entry, "keyed"))
    time.sleep(takes_s / 2)
    return _after(run, entry)


@tool
def pay(run: str, entry: str) -> str:
    """Pay an entry."""
    takes_s = _before(run, entry)
    time.sleep(takes_s / 2)
    LEDGER.write(_line(run, entry, "unsafe"))
    time.sleep(takes_s / 2)
    return _after(run, entry)


clerk = Agent(name="clerk", instructions="Keep the books.", tools=[look, put, pay])
