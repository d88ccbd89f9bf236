"""The agent of the doomed calls: one tool for each effect, which writes one row."""

from typing import Any

from perdure import Agent, Timeouts, tool, tool_context
from perdure.agents.approval import ProposedCall
from tests.chaos.effects.book import Row
from tests.chaos.effects.dying import BOOK, stand, stand_in_thread
from tests.chaos.effects.points import Point


def is_gated(asked: ProposedCall) -> bool:
    """Ask where the call says so."""
    return bool(asked.arguments["gated"])


def _here(arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    return arguments, tool_context().attempt


def _row(entry: str) -> Row:
    context = tool_context()
    return Row("effect", entry, key=context.idempotency_key, attempt=context.attempt)


@tool(effect="read", approval=is_gated)
async def look(entry: str, point: str, gated: bool, wave: str, together: int) -> str:
    """Look an entry up."""
    here = _here(locals())
    await stand(Point.BEFORE_EFFECT, *here)
    BOOK.write(_row(entry))
    await stand(Point.AFTER_EFFECT, *here)
    return f"recorded {entry}"


@tool(effect="keyed", approval=is_gated)
def put(entry: str, point: str, gated: bool, wave: str, together: int) -> str:
    """Put an entry down, under its own key."""
    here = _here(locals())
    stand_in_thread(Point.BEFORE_EFFECT, *here)
    BOOK.write_once(_row(entry))
    stand_in_thread(Point.AFTER_EFFECT, *here)
    return f"recorded {entry}"


@tool(approval=is_gated)
def pay(entry: str, point: str, gated: bool, wave: str, together: int) -> str:
    """Pay an entry."""
    here = _here(locals())
    stand_in_thread(Point.BEFORE_EFFECT, *here)
    BOOK.write(_row(entry))
    stand_in_thread(Point.AFTER_EFFECT, *here)
    return f"recorded {entry}"


clerk = Agent(name="clerk", tools=[look, put, pay], timeouts=Timeouts(heartbeat_s=3))
