"""Agents whose Runs are traced, as a user would declare them; served by worker processes."""

import os
import sys
import time
from pathlib import Path

from perdure import Agent, StdioServer, tool
from perdure.agents.judge import judged_by

SCRIPTED = str(Path(__file__).parents[1] / "mcp" / "scripted.py")
MCP_LOG = os.environ.get("MCP_LOG", os.devnull)


@tool(effect="read")
def look(ledger: str, entry: str) -> str:
    """Look something up, until a file says go on."""
    path = Path(ledger)
    with path.open("a") as lines:
        lines.write(entry + "\n")
    while not path.with_suffix(".open").exists():
        time.sleep(0.02)
    return f"recorded {entry}"


@tool(effect="read")
def note(text: str) -> str:
    """Note something."""
    return f"noted {text}"


@tool(effect="read")
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(f"no {text}")


rules = Agent(name="rules", instructions="Only cooking passes.", model="judge-model")
clerk = Agent(name="clerk", tools=[look, note, fail])
helper = Agent(name="helper", description="Helps.", tools=[note])
server = StdioServer("s", sys.executable, [SCRIPTED, "--log", MCP_LOG], include=["echo"])
chief = Agent(
    name="chief",
    tools=[helper.as_tool()],
    mcp_servers=[server],
    input_checks=[judged_by(rules)],
)
