"""What a user writes, under the strict type checker: `make check` reads this file."""

from dataclasses import dataclass
from typing import assert_type

from perdure import (
    Agent,
    ErrorCode,
    Event,
    File,
    FileRef,
    Fork,
    Limits,
    RetryRule,
    Run,
    RunManager,
    Timeouts,
    Tool,
    ToolContext,
    tool,
    tool_context,
)
from perdure.agents.checks import CheckedInput, CheckedOutput, Verdict, allow, reject, retry
from perdure.agents.judge import judged_by
from perdure.tools import calculate, fetch_url, file_tools, search_tool, shell_tool


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


@tool(effect="keyed")
def book(city: str) -> str:
    """Book a room, once however often this is run."""
    return f"{city}: {tool_context().idempotency_key}"


@tool(effect="read", timeout_s=30)
def measure(context: ToolContext, city: str) -> float:
    """Measure how warm it is."""
    context.progress("asking", 0.5)
    assert_type(context.secret("station"), str)
    assert_type(context.deadline.timestamp(), float)
    assert_type(context.session_id, str | None)
    return 0.0 if context.cancelled or context.wait_cancelled(1) else 20.5


class Shop:
    """Has a method that is a tool, too."""

    def stock(self, article: str) -> int:
        """Tell how much there is."""
        return len(article)


stock = tool(effect="read")(Shop().stock)


@dataclass
class Trip:
    city: str


def no_swearing(said: CheckedOutput) -> Verdict | None:
    return retry("Say it nicely.") if "damn" in said.text else None


async def short(said: CheckedInput) -> Verdict:
    return reject("Too long.") if len(said.text) > 9000 else allow()


agent = Agent(
    name="guide",
    output_type=Trip,
    input_checks=[short, judged_by(Agent(name="judge", instructions="Only travel passes."))],
    output_checks=[no_swearing],
    instructions="Help.",
    tools=[
        weather,
        population,
        book,
        measure,
        stock,
        calculate,
        fetch_url,
        *file_tools("."),
        shell_tool("."),
    ],
    fallback_models=["other-model"],
    retries={ErrorCode.RATE_LIMITED: RetryRule(max_attempts=3)},
    timeouts=Timeouts(run_s=60, tool_s=5),
    on_limit="finalize",
)
assert_type(weather("Oslo"), str)
weather(city="Oslo", days="two")  # type: ignore[arg-type]
weather("Oslo", 2, 3)  # type: ignore[call-arg]
assert_type(measure(ToolContext(variables={"unit": "C"}, secrets={"station": "x"}), "Oslo"), float)
measure("Oslo")  # type: ignore[call-arg, arg-type]
assert_type(stock("bolt"), int)
stock(3)  # type: ignore[arg-type]
tool(effect="harmless")  # type: ignore[call-overload]
with ToolContext(call_id="c1") as told:
    assert_type(told, ToolContext)
    book("Oslo")
assert_type(calculate("1 + 1"), str)
assert_type(search_tool(".")("word", max_results=1), str)
assert_type(agent.tool("weather") is None, bool)


async def use() -> None:
    manager = await RunManager.connect()
    run_id = await manager.start_run("guide", "Oslo?", limits=Limits(max_turns=3))
    assert_type(run_id, str)
    given = [File.from_path("a.png"), File.from_url("https://example.org/b.png")]
    await manager.start_run("guide", "Where is this?", files=given)
    assert_type(await manager.file(run_id, 1), File)
    assert_type([each.file for each in await manager.files(run_id)], list[FileRef])
    assert_type(await manager.wait(run_id), Run)
    assert_type((await manager.wait(run_id)).output_as(Trip), Trip)
    async for event in manager.events(run_id):
        seen: Event = event
        assert seen.run_id == run_id
    assert_type(await manager.cancel(run_id, mode="after_step"), Run)
    assert_type(await manager.send_message(run_id, "And Turku?", message_id="m1"), Run)
    assert_type(await manager.pause(run_id, "lunch"), Run)
    assert_type(await manager.unpause(run_id), Run)
    assert_type(await manager.resume(run_id, limits=Limits(max_turns=9)), Run)
    assert_type(await manager.fork(run_id, Fork(step=1, message="Bergen?")), str)
    assert_type(await population("Oslo"), int)
    assert_type(await fetch_url("https://example.org"), str)
    assert_type(await shell_tool(".")(["ls", "-l"]), str)
    made: Tool[..., str] = weather
    assert made.name == "weather"
