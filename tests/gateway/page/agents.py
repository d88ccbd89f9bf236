"""Agents whose Runs the page's tests look at."""

from perdure import Agent, RetryRule, ask_user, tool
from perdure.runs.errors import ErrorCode

PAID: list[int] = []
HUGE = 9_007_199_254_740_993
"""JavaScript's numbers would make it …992."""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202eevil\x1b[2J" + "w" * 3000
SOON = RetryRule(max_attempts=3, first_s=0.2, longest_s=0.2)


@tool(approval=lambda asked: f"More than {asked.arguments['euros'] - 1} euros.")
def pay(euros: int, to: str = "") -> str:
    """Pay somebody."""
    PAID.append(euros)
    return f"paid {euros}"


@tool(effect="read")
def echo(text: str) -> str:
    """Say it again."""
    return text


SPEAKER = Agent(name="speaker", retries={ErrorCode.STREAM_INCOMPLETE: SOON})
ECHOER = Agent(name="echoer", tools=[echo])
CLERK = Agent(name="clerk", tools=[pay, ask_user, echo])
