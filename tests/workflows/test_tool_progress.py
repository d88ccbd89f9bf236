"""What a running tool says is seen by whoever watches its Run, and by nobody else."""

import asyncio
from io import StringIO
from typing import Any

from pydantic import SecretStr
from rich.console import Console

from perdure import Agent, ToolContext, tool
from perdure.activities.redaction import MASK
from perdure.client.cli.render import run_view
from perdure.client.live.run import LiveRun
from perdure.runs.deltas import Position, ToolProgressed
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, text, tool_calls
from tests.harness.terminal import on_terminal

TOKEN = "t0ken-of-the-bank"  # noqa: S105 - made up


class Work:
    """A tool that says three things, one after the other, when it is let go on."""

    def __init__(self) -> None:
        self.said = 0
        self.goes_on = asyncio.Semaphore(0)

    @property
    def agent(self) -> Agent:
        """Two of them at once, and one that says nothing."""

        @tool(effect="read")
        async def count(context: ToolContext, upto: int) -> str:
            """Count."""
            for number in range(1, upto + 1):
                context.progress(f"{number} of {upto} \x1b[31m {TOKEN}", number / upto)
                await self.goes_on.acquire()
            return f"counted for {context.session_id}, {context.agent}: {context.secret('bank')}"

        @tool(effect="read")
        def wait(context: ToolContext) -> bool:
            """Wait, and say nothing."""
            return context.wait_cancelled(30)

        return Agent(name="counter", tools=[count, wait])


def shown(view: Any) -> str:
    """Return what a terminal would show."""
    written = StringIO()
    Console(file=written, width=200, color_system=None).print(view)
    return written.getvalue()


async def says(live: LiveRun, message: str, fraction: float) -> None:
    """Wait until a tool says so."""
    async for item in live.read(Position()):
        if isinstance(item, ToolProgressed) and (item.message, item.fraction) == (
            message,
            fraction,
        ):
            return
    raise AssertionError(f"{message!r} was not said")


async def test_progress_is_live_and_leaves_nothing_behind(engine: Engine) -> None:
    engine.settings.secrets = {"bank": SecretStr(TOKEN)}
    engine.model.script([tool_calls(call("count", {"upto": 2})), text("Done.")])
    work = Work()
    async with engine.serving(work.agent):
        run_id = (await engine.manager.session("talk").start_run("counter", "Count.")).run_id
        async with engine.manager.live(run_id) as live:
            await says(live, f"1 of 2 \x1b[31m {MASK}", 0.5)
            assert live.run is not None
            running = shown(run_view(live.run, live.under_way, live=True))
            work.goes_on.release()
            await says(live, f"2 of 2 \x1b[31m {MASK}", 1.0)
        work.goes_on.release()
        run = await engine.ended(run_id)
        histories = "".join(await engine.histories(run_id))
    assert f"50% 1 of 2 [31m {MASK}" in running
    assert "\x1b" not in running
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].result == f"counted for talk, counter: {MASK}"
    assert "1 of 2" not in histories
    assert TOKEN not in histories


async def test_a_conversation_shows_how_far_its_tools_are(engine: Engine) -> None:
    engine.settings.secrets = {"bank": SecretStr(TOKEN)}
    calls = [call("count", {"upto": 3}), call("count", {"upto": 1}), call("wait", {})]
    engine.model.script([tool_calls(*calls), text("Done.")])
    env = {"PERDURE_TASK_QUEUE": engine.task_queue}
    async with (
        engine.serving(Work().agent),
        on_terminal("chat", "--agent", "counter", env=env) as chat,
    ):
        await chat.shows("\n> ")
        chat.say("Count.")
        seen = await chat.shows("33% 1 of 3")
        seen += await chat.shows("100% 1 of 1")
        chat.type("\x03")
        await chat.shows("Cancelled")
    assert TOKEN not in seen
