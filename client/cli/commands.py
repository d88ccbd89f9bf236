"""What the commands on Runs do."""

import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from rich.text import Text

from perdure.client.cli.following import conclude, show_live, until_ended
from perdure.client.cli.render import run_view, runs_table
from perdure.client.cli.session import err, out, print_json
from perdure.client.cli.tree_view import tree_view
from perdure.client.listing import RunFilter
from perdure.client.manager import RunManager
from perdure.client.tree import tree_of
from perdure.client.ui import run_url, trace_url
from perdure.engine.settings import Settings
from perdure.runs.errors import InvalidRequest
from perdure.runs.events import CancelMode


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
    return conclude(await until_ended(manager, run_id), as_json=as_json)


async def watch(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Follow a Run to its end."""
    return await show_live(await RunManager.connect(settings), run_id, as_json=as_json)


async def get(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Show a Run as it stands."""
    manager = await RunManager.connect(settings)
    run = await manager.get_run(run_id)
    if as_json:
        print_json(run)
    else:
        found = await tree_of(manager.client, run, running_only=True)
        out.print(run_view(run, below=found.children))
        where = trace_url(settings, run)
        if where is not None:
            out.print(f"Trace: {where}", soft_wrap=True, markup=False)
    return 0


async def tree(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Show a Run with the Runs below it."""
    found = await (await RunManager.connect(settings)).tree(run_id)
    if as_json:
        print_json(found)
    else:
        out.print(tree_view(found))
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
    wanted = checked_filter(chosen)
    found = await (await RunManager.connect(settings)).list_runs(wanted, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return 0
    out.print(runs_table(found) if found.runs else "No Runs.")
    if found.next_cursor:
        err.print(Text(f"More: --cursor {found.next_cursor}", style="dim"))
    return 0


def checked_filter(chosen: Callable[[], RunFilter]) -> RunFilter:
    """Return which Runs are wanted.

    Raises:
        InvalidRequest: When a name of it can't name anything.
    """
    try:
        return chosen()
    except ValidationError as exc:
        problem = exc.errors()[0]
        raise InvalidRequest(f"{problem['loc'][0]}: {problem['msg']}.") from exc


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
