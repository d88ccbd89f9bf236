"""What the model says: a function of the transcript in the request, and nothing else.

So a retry gets the same answer, and the last answer shows whether each result arrived, once,
and in its place.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tests.chaos.plan import PlannedRun
from tests.harness.replies import Reply, call, text, tool_calls

TOOLS = {"read": "look", "keyed": "put", "unsafe": "pay"}
PIECES = 8


def prompt(run_id: str) -> str:
    """Return the input of a Run."""
    return f"Keep the books of {run_id} please."


def run_asked_for(messages: Sequence[dict[str, Any]]) -> str:
    """Return the id of the Run that a request belongs to."""
    asked: str = next(m["content"] for m in messages if m["role"] == "user")
    found = re.search(r"books of (\S+)", asked)
    if found is None:
        raise ValueError(f"no Run in {asked!r}")
    return found[1]


def turn_asked_for(messages: Sequence[dict[str, Any]]) -> int:
    """Return which turn the model is asked for, from 1."""
    return 1 + len([m for m in messages if m["role"] == "assistant"])


def results_in(messages: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return call id and content of each tool result of a transcript."""
    return [(m["tool_call_id"], m["content"]) for m in messages if m["role"] == "tool"]


def conclusion(results: Iterable[tuple[str, str]]) -> str:
    """Return the last answer of a Run whose calls had these results, in this order."""
    told = list(results)
    numbers = [int(content) for _, content in told if content.isdecimal()]
    digest = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
    return (
        f"{len(told)} entries, {len(told) - len(numbers)} of them unknown, "
        f"come to {sum(numbers)} ({digest})."
    )


def answer(run: PlannedRun, messages: Sequence[dict[str, Any]], usage: tuple[int, int]) -> Reply:
    """Return what the model says next in a Run."""
    turn = turn_asked_for(messages)
    if turn > len(run.turns):
        said = conclusion(results_in(messages))
        length = -(-len(said) // PIECES)
        pieces = [said[at : at + length] for at in range(0, len(said), length)]
        return text(*pieces, usage=usage).delayed(run.chunk_delay_s)
    calls = [
        call(TOOLS[each.effect], {"run": run.run_id, "entry": each.call_id}, each.call_id)
        for each in run.turns[turn - 1]
    ]
    return tool_calls(*calls, content=f"Turn {turn}.", usage=usage).delayed(run.chunk_delay_s)
