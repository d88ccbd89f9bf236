"""The agents and tools of the bank. Each execution of a tool is noted."""

from collections import defaultdict
from typing import Any

from temporalio import activity

from perdure import Agent, Limits, ModelProfile, tool

_executed: dict[str | None, list[str]] = defaultdict(list)


def note(*ran: object) -> None:
    """Remember that a tool ran."""
    _executed[activity.info().workflow_id].append(" ".join(map(str, ran)))


def executed(run_id: str) -> list[str]:
    """Return what tools ran in a Run, each with its argument."""
    return _executed[run_id]


@tool(effect="read")
async def ping() -> str:
    """Answer."""
    note("ping")
    return "pong"


@tool(effect="read")
async def weather(city: str) -> str:
    """Tell the weather."""
    note("weather", city)
    return f"Sun in {city}."


@tool
async def pay(eur: int) -> str:
    """Pay."""
    note("pay", eur)
    return "paid"


@tool
async def write(path: str, text: str) -> str:
    """Write a file."""
    note("write", path)
    return "written"


@tool(effect="read")
async def read(f: str) -> str:
    """Read a file."""
    note("read", f)
    return f"content of {f}"


@tool(effect="read")
async def find(id: int) -> int:
    """Find a thing."""
    note("find", id)
    return 9223372036854775807


@tool(effect="read")
async def scale(by: float) -> float:
    """Scale."""
    note("scale", by)
    return by


@tool(effect="read")
async def measure(kind: str) -> Any:
    """Measure; some results are hard to write down."""
    note("measure", kind)
    return RESULTS[kind]


@tool(effect="read")
async def fail(how: str) -> str:
    """Fail."""
    raise ValueError({"surrogate": "no \udc9d"}[how])


RESULTS: dict[str, Any] = {
    "nan": {"ratio": float("nan"), "rows": [1.0, float("inf")]},
    "nested nan": [[float("-inf"), {"x": (float("nan"),)}]],
    "surrogate": "ok \udc9d",
    "nested surrogate": {"name": ["ok \udc9d", "漢字 😀"]},
    "emoji": "漢字 😀",
    "big": {"n": 2512292042121000001, "m": [10**29 + 7, -(2**63)]},
    "nul": "a\x00b",
    "long": "long " * 20_000,
}

TOOLS = (ping, weather, pay, write, read, find, scale, measure, fail)

HELPER = Agent(name="helper", instructions="Help.", tools=TOOLS)
EMPTY_CONTENT = Agent(name="empty-content", tools=TOOLS, profile=ModelProfile(null_content=False))
REASONER = Agent(
    name="reasoner", tools=TOOLS, profile=ModelProfile(echo_fields=("reasoning_content",))
)
UNCOUNTED = Agent(name="uncounted", tools=TOOLS, profile=ModelProfile(stream_usage=False))
SHORT = Agent(name="short", tools=TOOLS, limits=Limits(max_turns=3))

AGENTS = (HELPER, EMPTY_CONTENT, REASONER, UNCOUNTED, SHORT)
