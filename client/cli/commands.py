"""What the commands on Runs do."""

import asyncio
import contextlib
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from rich.live import Live
from rich.text import Text

from perdure.client.cli.render import run_view, runs_table
from perdure.client.cli.session import err, exit_of, out, print_json
from perdure.client.cli.words import visible
from perdure.client.follow import PendingStep
from perdure.client.listing import RunFilter
from perdure.client.manager import RunManager
from perdure.client.ui import run_url
from perdure.engine.settings import Settings
from perdure.runs.errors import EngineUnavailable, InvalidRequest
from perdure.runs.events import CancelMode, Event
from perdure.runs.run import Run
from perdure.runs.status import WaitingOn

PENDING_EVERY_S = 0.5
"""How often a live view asks for partial output."""


@dataclass(frozen=True)
class Start:
    """What `perdure start` was told."""

    text: str
    agent: str
    options: dict[str, Any]
    """Keyword arguments of `RunManager.start_run`."""
    wait: bool
    follow: bool


async def start(settings: Settings, given: Callable[[], Start], *, as_json: bool) -> int:
    """Start a Run; print its id, or follow it to its end."""
    chosen = given()
    manager = await RunManager.connect(settings)
    text = sys.stdin.read() if chosen.text == "-" else chosen.text
    run_id = await manager.start_run(chosen.agent, text, **chosen.options)
    if chosen.follow:
        return await show_live(manager, run_id, as_json=as_json)
    if not chosen.wait:
        if as_json:
            print_json(await manager.get_run(run_id))
        else:
            out.print(run_id, soft_wrap=True)
        return 0
    return conclude(await manager.wait(run_id), as_json=as_json)


async def watch(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Follow a Run to its end."""
    return await show_live(await RunManager.connect(settings), run_id, as_json=as_json)


async def get(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Show a Run as it stands."""
    run = await (await RunManager.connect(settings)).get_run(run_id)
    if as_json:
        print_json(run)
    else:
        out.print(run_view(run))
    return 0


async def result(settings: Settings, run_id: str, call: str) -> int:
    """Print a tool call's result and nothing else."""
    manager = await RunManager.connect(settings)
    sys.stdout.write(await manager.result(run_id, call))
    sys.stdout.flush()
    return 0


async def listing(
    settings: Settings,
    chosen: Callable[[], RunFilter],
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> int:
    """List Runs."""
    try:
        wanted = chosen()
    except ValidationError as exc:
        problem = exc.errors()[0]
        raise InvalidRequest(f"{problem['loc'][0]}: {problem['msg']}.") from exc
    found = await (await RunManager.connect(settings)).list_runs(wanted, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return 0
    out.print(runs_table(found) if found.runs else "No Runs.")
    if found.next_cursor:
        err.print(Text(f"More: --cursor {found.next_cursor}", style="dim"))
    return 0


async def cancel(
    settings: Settings, run_id: str, reason: str, mode: CancelMode, *, as_json: bool
) -> int:
    """Ask a Run to stop; say how it stands."""
    run = await (await RunManager.connect(settings)).cancel(run_id, reason, mode=mode)
    if as_json:
        print_json(run)
    elif run.status.is_terminal:
        out.print(f"Run {run_id} has already ended: {run.status}.")
    else:
        out.print(f"Run {run_id} was told to stop.")
    return 0


async def ui(settings: Settings, run_id: str | None, *, open_in_browser: bool) -> int:
    """Print, or open, a page of the Temporal UI."""
    manager = await RunManager.connect(settings)
    if run_id is not None:
        await manager.get_run(run_id)
    url = run_url(settings, manager.client.namespace, run_id)
    out.print(url, soft_wrap=True)
    if open_in_browser:
        webbrowser.open(url)
    return 0


def conclude(run: Run, *, as_json: bool) -> int:
    """Print how a Run ended: its output to pipes, its error to people."""
    if as_json:
        print_json(run)
    else:
        if run.output:
            said = visible(run.output) if out.is_terminal else run.output
            out.print(Text(said), soft_wrap=True)
        if run.error is not None:
            err.print(Text(f"Run {run.run_id} {run.status}: {run.error}", style="red"))
    return exit_of(run)


async def show_live(manager: RunManager, run_id: str, *, as_json: bool) -> int:
    """Follow a Run: a live view on a terminal, lines of JSON when asked, quiet in pipes."""
    if as_json:
        async for event in manager.events(run_id):
            print_json(event)
        return exit_of(await manager.get_run(run_id))
    if not err.is_terminal:
        return conclude(await manager.wait(run_id), as_json=False)
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
                    live.update(run_view(aside.over(run), aside.pending, live=True))
    ended = await manager.get_run(run_id)
    out.print(run_view(ended))
    return ended


@dataclass
class _Aside:
    """What the Events of a Run do not tell."""

    pending: list[PendingStep] = field(default_factory=list)
    queued: bool = False
    waiting_on: WaitingOn | None = None

    def over(self, run: Run) -> Run:
        """Return the Run with its place, while it waits for its turn."""
        self.queued = run.waiting_on is not None and run.waiting_on.type == "queue"
        told = self.queued and self.waiting_on is not None
        return run.model_copy(update={"waiting_on": self.waiting_on}) if told else run


@asynccontextmanager
async def _polling(manager: RunManager, run_id: str, aside: _Aside) -> AsyncIterator[None]:
    """Keep `aside` up to date while the block runs."""

    async def poll() -> None:
        while True:
            # Partial output is a nicety: a server that restarts must not end the view.
            with contextlib.suppress(EngineUnavailable):
                aside.pending = await manager.pending_steps(run_id)
                if aside.queued:
                    aside.waiting_on = (await manager.get_run(run_id)).waiting_on
            await asyncio.sleep(PENDING_EVERY_S)

    task = asyncio.create_task(poll())
    try:
        yield
    finally:
        task.cancel()
