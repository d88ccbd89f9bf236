"""Following a Run on the command line: live on a terminal, quietly in a pipe."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from perdure.client.cli.actions.views import card
from perdure.client.cli.actions.waits import noticing
from perdure.client.cli.render import run_view, waiting
from perdure.client.cli.session import err, exit_of, out, print_json
from perdure.client.cli.words import visible
from perdure.client.deciding import OpenAction
from perdure.client.live.run import LiveRun
from perdure.client.manager import RunManager
from perdure.client.tree import RunTree, tree_of
from perdure.runs.deltas import Position
from perdure.runs.errors import PerdureError
from perdure.runs.events import RunPaused
from perdure.runs.run import Run
from perdure.runs.status import WaitingOn

REDRAW_S = 0.25
"""After so long a live view is drawn anew though nothing was told: seconds go by in it."""
ASIDE_EVERY_S = 1.0
"""How often it looks at the queue, and at the Runs below: each is read from its history."""


def conclude(run: Run, *, as_json: bool) -> int:
    """Print how a Run ended: its output to pipes, its error to people."""
    if as_json:
        print_json(run)
    else:
        if run.output:
            said = visible(run.output) if out.is_terminal else run.output
            out.print(Text(said), soft_wrap=True)
        if run.error is not None:
            said = visible(f"Run {run.run_id} {run.status}: {run.error}")
            err.print(Text(said, style="red"))
    return exit_of(run)


async def until_ended(manager: RunManager, run_id: str) -> Run:
    """Wait for the end of a Run: people see it live; without any, only what waits for one."""
    if err.is_terminal:
        await _view(manager, run_id)
        return await manager.get_run(run_id)

    def tell(asked: OpenAction) -> None:
        err.print(card(asked))

    async with noticing(manager, run_id, tell):
        async for event in manager.events(run_id):
            if isinstance(event, RunPaused):
                err.print(Text(waiting(event.waiting_on, run_id), style="yellow"), soft_wrap=True)
    return await manager.get_run(run_id)


async def show_live(manager: RunManager, run_id: str, *, as_json: bool) -> int:
    """Follow a Run: a live view on a terminal, lines of JSON when asked, quiet in pipes."""
    if as_json:
        async for item in manager.live_events(run_id):
            print_json(item)
        return exit_of(await manager.get_run(run_id))
    try:
        run = await until_ended(manager, run_id)
    except asyncio.CancelledError:
        if err.is_terminal:
            err.print(f"The Run goes on: perdure watch {run_id}")
        raise
    if not err.is_terminal:
        return conclude(run, as_json=False)
    out.print(run_view(run))
    return exit_of(run)


async def _view(manager: RunManager, run_id: str) -> None:
    """Show a Run until it has ended; nothing of it stays."""
    async with manager.live(run_id) as live, _looking(manager, live) as aside:
        with Live(console=err, refresh_per_second=8, transient=True) as view:
            view.update(_Fitting(aside.over(live)))
            async for _ in live.read(Position(live.last), alive_s=REDRAW_S):
                view.update(_Fitting(aside.over(live)))


@dataclass
class _Aside:
    """What neither the Events of a Run tell nor its Steps."""

    waiting_on: WaitingOn | None = None
    """Its place in the queue."""
    below: tuple[RunTree, ...] = ()
    """The Runs below it that go on."""

    def over(self, live: LiveRun) -> RenderableType:
        """Return the view of a Run."""
        run = live.run
        if run is None:
            return Text("")
        if _is_queued(run) and self.waiting_on is not None:
            run = run.model_copy(update={"waiting_on": self.waiting_on})
        return run_view(run, live.under_way, live=True, below=self.below)


def _is_queued(run: Run) -> bool:
    return run.waiting_on is not None and run.waiting_on.type == "queue"


@asynccontextmanager
async def _looking(manager: RunManager, live: LiveRun) -> AsyncIterator[_Aside]:
    """Look aside from time to time while the block runs."""
    aside = _Aside()

    async def look() -> None:
        while live.run is not None:
            # A nicety: a server that restarts must not end the view.
            with contextlib.suppress(PerdureError):
                if _is_queued(live.run):
                    aside.waiting_on = (await manager.get_run(live.run_id)).waiting_on
                aside.below = (await tree_of(manager.client, live.run, running_only=True)).children
            await asyncio.sleep(ASIDE_EVERY_S)

    task = asyncio.create_task(look())
    try:
        yield aside
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@dataclass
class _Fitting:
    """What fits the terminal of something that may be taller: its first line, and its end."""

    whole: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self.whole, options.update(height=None), pad=False)
        room = options.size.height - 1
        if len(lines) > room:
            lines = lines[:1] + lines[len(lines) - room + 1 :]
        for line in lines:
            yield from line
            yield Segment.line()
