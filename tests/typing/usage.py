"""What a user writes, under the strict type checker: `make check` reads this file."""

from typing import assert_type

from perdure import Agent, Event, Limits, Run, RunManager, Tool, tool


@tool
def weather(city: str, days: int = 1) -> str:
    """Tell the weather.

    Args:
        city: Where.
        days: How many days ahead.
    """
    return f"sun in {city} for {days} days"


@tool(effect="read", timeout_s=5)
async def population(city: str) -> int:
    """Tell how many people live in a city."""
    return len(city)


agent = Agent(name="guide", instructions="Help.", tools=[weather, population])
assert_type(weather("Oslo"), str)
assert_type(agent.tool("weather") is None, bool)


async def use() -> None:
    manager = await RunManager.connect()
    run_id = await manager.start_run("guide", "Oslo?", limits=Limits(max_turns=3))
    assert_type(run_id, str)
    assert_type(await manager.wait(run_id), Run)
    async for event in manager.events(run_id):
        seen: Event = event
        assert seen.run_id == run_id
    assert_type(await population("Oslo"), int)
    made: Tool[..., str] = weather
    assert made.name == "weather"
