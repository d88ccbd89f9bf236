"""Declaring the scripted server, and reading what it was told."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from perdure.agents.mcp import StdioServer

PROGRAM = str(Path(__file__).with_name("scripted.py"))


def scripted(name: str = "s", *options: str, log: Path | None = None, **more: Any) -> StdioServer:
    """Return the scripted server, with options of its command line."""
    args = [PROGRAM, *options, *(["--log", str(log)] if log else [])]
    return StdioServer(name, sys.executable, args, **more)


def heard(log: Path, method: str) -> list[dict[str, Any]]:
    """Return the messages of one method that the server got."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [message for message in map(json.loads, lines) if message.get("method") == method]


def exists(pid: int) -> bool:
    """Tell whether there is a process of this id, be it only a dead one that nobody has reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
