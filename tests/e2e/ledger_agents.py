"""Agents whose tools write one line for each execution, as a user would declare them."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

from perdure import Agent, tool


def _record(ledger: str, entry: str) -> Path:
    path = Path(ledger)
    with path.open("a") as lines:
        lines.write(entry + "\n")
    return path.with_suffix(".open")


@tool(effect="read")
def look(ledger: str, entry: str) -> str:
    """Look something up, until a file says go on."""
    go_on = _record(ledger, entry)
    while not go_on.exists():
        time.sleep(0.02)
    return f"recorded {entry}"


@tool
def pay(ledger: str, entry: str) -> str:
    """Pay, until a file says go on."""
    go_on = _record(ledger, entry)
    while not go_on.exists():
        time.sleep(0.02)
    return f"recorded {entry}"


@tool
async def transfer(ledger: str, entry: str) -> str:
    """Pay, until a file says go on, but undo it when cancelled."""
    go_on = _record(ledger, entry)
    try:
        while not go_on.exists():  # noqa: ASYNC110 - it is another process's file
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        _record(ledger, f"{entry} undone")
        raise
    return f"recorded {entry}"


@tool
async def insist(ledger: str, entry: str) -> str:
    """Pay, and never mind being cancelled."""
    go_on = _record(ledger, entry)
    while not go_on.exists():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    return f"recorded {entry}"


@tool(effect="read", task_queue=os.environ.get("PERDURE_TASK_QUEUE", "test") + "-tools")
def render(what: str) -> str:
    """Do what only some machines can."""
    return f"rendered {what}"


@tool(effect="read")
def version() -> str:
    """Tell the version of the worker that executes this."""
    return os.environ.get("PERDURE_BUILD_ID", "")


painter = Agent(name="painter", tools=[look, pay, render, version])
clerk = Agent(name="clerk", instructions="Keep the books.", tools=[look, pay, transfer, insist])
