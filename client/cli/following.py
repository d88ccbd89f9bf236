"""Following a Run on the command line: live on a terminal, quietly in a pipe."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rich.live import Live
from rich.text import Text

from perdure.client.cli.actions.views import card
from perdure.client.cli.actions.waits import noticing
from perdure.client.cli.render import run_view, waiting
from perdure.client.cli.session import err, exit_of, out, print_json
from perdure.client.cli.words import visible
from perdure.client.deciding import OpenAction
from perdure.client.follow import PendingStep
from perdure.client.manager import RunManager
from perdure.client.tree import RunTree, tree_of
from perdure.runs.errors import EngineUnavailable
from perdure.runs.events import Event, RunPaused
from perdure.runs.run import Run
from perdure.runs.status import WaitingOn

PENDING_EVERY_S = 0.5
"""How often a live view asks for partial output."""
BELOW_EVERY = 4
"""Of these, how often it looks at the Runs below: each is read from its history."""


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
    """Wait for the end of a Run, and say meanwhile what it waits for a person to do."""

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
        async for event in manager.events(run_id):
            print_json(event)
        return exit_of(await manager.get_run(run_id))
    if not err.is_terminal:
        return conclude(await until_ended(manager, run_id), as_json=False)
    try:
        return exit_of(await _on_terminal(manager, run_id))
    except asyncio.CancelledError:
        err.print(f"The Run goes on: perdure watch {run_id}")
        raise


async def _on_terminal(manager: RunManager, run_id: str) -> Run:
    run: Run | None = None
    aside = _Aside()
    with Live(console=err, refresh_per_second=8, transient=True) as live:
        async with _polling(manager, run_id, aside):
            events = manager.events(run_id)
            upcoming = asyncio.ensure_future(anext(events, None))
            while True:
                done, _ = await asyncio.wait({upcoming}, timeout=0.2)
                if done:
                    event: Event | None = upcoming.result()
                    if event is None:
                        break
                    run = Run.begin(event) if run is None else run.apply(event)
                    upcoming = asyncio.ensure_future(anext(events, None))
                if run is not None:
                    aside.run = run
                    shown = run_view(aside.over(run), aside.pending, live=True, below=aside.below)
                    live.update(shown)
    ended = await manager.get_run(run_id)
    out.print(run_view(ended))
    return ended


@dataclass
class _Aside:
    """What the Events of a Run do not tell."""

    pending: list[PendingStep] = field(default_factory=list)
    queued: bool = False
    waiting_on: WaitingOn | None = None
    run: Run | None = None
    """As its Events have told it so far."""
    below: tuple[RunTree, ...] = ()
    """The Runs below it that go on."""

    def over(self, run: Run) -> Run:
        """Return the Run with its place, while it waits for its turn."""
        self.queued = run.waiting_on is not None and run.waiting_on.type == "queue"
        told = self.queued and self.waiting_on is not None
        return run.model_copy(update={"waiting_on": self.waiting_on}) if told else run


@asynccontextmanager
async def _polling(manager: RunManager, run_id: str, aside: _Aside) -> AsyncIterator[None]:
    """Keep `aside` up to date while the block runs."""

    async def poll() -> None:
        for look in itertools.count():
            # Partial output is a nicety: a server that restarts must not end the view.
            with contextlib.suppress(EngineUnavailable):
                aside.pending = await manager.pending_steps(run_id)
                if aside.queued:
                    aside.waiting_on = (await manager.get_run(run_id)).waiting_on
                if look % BELOW_EVERY == 0 and aside.run is not None:
                    found = await tree_of(manager.client, aside.run, running_only=True)
                    aside.below = found.children
            await asyncio.sleep(PENDING_EVERY_S)

    task = asyncio.create_task(poll())
    try:
        yield
    finally:
        task.cancel()
