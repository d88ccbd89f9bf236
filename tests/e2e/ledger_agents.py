"""Agents whose tools write one line for each execution, as a user would declare them."""

import time
from pathlib import Path

from perdure import Agent, tool


def _record(ledger: str, entry: str) -> str:
    path = Path(ledger)
    with path.open("a") as lines:
        lines.write(entry + "\n")
    while not path.with_suffix(".open").exists():
        time.sleep(0.02)
    return f"recorded {entry}"


@tool(effect="read")
def look(ledger: str, entry: str) -> str:
    """Look something up, until a file says go on."""
    return _record(ledger, entry)


@tool
def pay(ledger: str, entry: str) -> str:
    """Pay, until a file says go on."""
    return _record(ledger, entry)


clerk = Agent(name="clerk", instructions="Keep the books.", tools=[look, pay])
