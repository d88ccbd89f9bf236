"""The agent that is measured, with a tool whose result has a fixed size; and one that waits."""

import asyncio
import os

from perdure import Agent, tool

RESULT_BYTES = int(os.environ.get("BENCH_RESULT_BYTES", "1000"))
"""Bytes of each tool result."""

PROSE = (
    'The keeper wrote in the log: "Wind from the south-west, 14 knots, sea moderate." At 04:10 '
    "a schooner passed with her lamps lit; she answered the signal at once and stood on for the "
    "harbour.\nOil used in the night: 2.3 litres (1.9 the night before). The lens was cleaned, "
    "the clockwork wound at six. Two letters came with the supply boat, and a crate of lamp "
    "glass of which one pane, the third from the left, had cracked.\n"
)
"""English with numbers, quotes and line breaks, as tools return it: JSON escapes some of it."""


@tool(effect="read")
def echo(text: str) -> str:
    """Say something and read what the log has about it.

    Args:
        text: What to say.
    """
    said = f"{text}: {PROSE}"
    return (said + PROSE * (RESULT_BYTES // len(PROSE) + 1))[:RESULT_BYTES]


@tool
async def pause(seconds: float) -> str:
    """Do nothing for a while.

    Args:
        seconds: How long.
    """
    await asyncio.sleep(seconds)
    return "rested"


waiter = Agent(name="waiter", instructions="Take your time.", tools=[pause])
WINDOW_TOKENS = 4_000
"""Of the model that `talker` has: what a conversation is compacted for."""
talker = Agent(name="talker", instructions="Be brief.", context_window=WINDOW_TOKENS)
agent = Agent(name="echo", instructions="Use the tool echo in every turn.", tools=[echo])
