"""What the commands do that show, and decide, what Runs ask of people."""

import getpass
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from perdure.client.cli.actions import views
from perdure.client.cli.commands import checked_filter
from perdure.client.cli.session import err, out, print_json
from perdure.client.deciding import ActionList, OpenAction, open_actions
from perdure.client.listing import RunFilter
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs.actions import Action
from perdure.runs.errors import ActionNotFound, InvalidRequest, PerdureError
from perdure.runs.resolving import find_action
from perdure.runs.run import Run


async def listing(
    settings: Settings,
    chosen: Callable[[], RunFilter],
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> int:
    """List what people are to decide."""
    wanted = checked_filter(chosen)
    manager = await RunManager.connect(settings)
    found = await manager.list_actions(wanted, limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return 0
    if found.actions:
        out.print(views.actions_table(found.actions))
        err.print(Text("In full, with the commands: perdure approvals RUN_ID", style="dim"))
    else:
        out.print("Nothing waits for a person.")
    if found.next_cursor:
        err.print(Text(f"More: --cursor {found.next_cursor}", style="dim"))
    return 0


async def of_run(settings: Settings, run_id: str, *, as_json: bool) -> int:
    """Show, in full, what a Run and the Runs below it ask people."""
    waits = (await (await RunManager.connect(settings)).tree(run_id, running_only=True)).waits()
    if as_json:
        print_json(ActionList(actions=waits))
    elif not waits:
        out.print(f"Run {run_id} waits for nobody's decision.", soft_wrap=True)
    for each in () if as_json else waits:
        out.print(views.card(each))
    return 0


@dataclass(frozen=True)
class Asked:
    """What the command line names."""

    run_id: str
    action: str | None
    by: str | None


async def approve(
    settings: Settings, asked: Asked, note: str, edited: str | None, *, as_json: bool
) -> int:
    """Say yes."""
    arguments = None if edited is None else read_arguments(edited)
    by = asked.by or login_name()
    manager = await RunManager.connect(settings)
    action = await _action(manager, asked, confirm=True)
    run = await manager.approve(asked.run_id, action, by=by, note=note, arguments=arguments)
    return _told(run, action, as_json=as_json)


async def reject(settings: Settings, asked: Asked, note: str, *, as_json: bool) -> int:
    """Say no."""
    by = asked.by or login_name()
    manager = await RunManager.connect(settings)
    action = await _action(manager, asked)
    run = await manager.reject(asked.run_id, action, by=by, note=note)
    return _told(run, action, as_json=as_json)


async def answer(settings: Settings, asked: Asked, text: str, *, as_json: bool) -> int:
    """Answer a question."""
    by = asked.by or login_name()
    manager = await RunManager.connect(settings)
    said = sys.stdin.read().removesuffix("\n") if text == "-" else text
    action = await _action(manager, asked)
    meant = find_action(await manager.get_run(asked.run_id), action)
    run = await manager.answer(asked.run_id, action, chosen(meant, said), by=by)
    return _told(run, action, as_json=as_json)


def chosen(action: Action, text: str) -> str:
    """Return the choice that a number stands for, or the text itself."""
    number = text.strip()
    if not views.by_number(action) or not (number.isascii() and number.isdecimal()):
        return text
    at = int(number[:6]) - 1
    return action.choices[at] if 0 <= at < len(action.choices) else text


def read_arguments(text: str) -> dict[str, Any]:
    """Read the arguments that a call is to be executed with: JSON, `@` and a file, or `-`.

    Raises:
        InvalidRequest: When they can't be read, or are no JSON object.
    """
    try:
        raw = _raw(text)
        given = json.loads(raw)
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidRequest(f"The arguments can't be read: {exc}.", hint=_OBJECT) from exc
    if not isinstance(given, dict):
        raise InvalidRequest("The arguments are no JSON object.", hint=_OBJECT)
    return given


_OBJECT = 'Give all arguments of the call as one JSON object, such as {"euros": 5}.'


def _raw(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def login_name() -> str:
    """Return the name of whoever sits at this machine.

    Raises:
        InvalidRequest: When it has none.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError) as exc:
        raise InvalidRequest(
            "Nobody is logged in here.", hint="Say who decides: --by NAME."
        ) from exc


async def _action(manager: RunManager, asked: Asked, *, confirm: bool = False) -> str:
    """Return which action is meant: where none is named, the only one that is open."""
    if asked.action is not None:
        return asked.action
    waits = open_actions(await manager.get_run(asked.run_id))
    if len(waits) != 1:
        raise _unclear(asked.run_id, waits)
    if confirm and sys.stdin.isatty() and err.is_terminal:
        err.print(views.card(waits[0]))
        if err.input(Text("Approve this? [y/N] ")).strip().lower() not in ("y", "yes"):
            raise InvalidRequest("Nothing was approved.", hint="Name the action to be sure.")
    return waits[0].action.action_id


def _unclear(run_id: str, waits: tuple[OpenAction, ...]) -> PerdureError:
    if not waits:
        return ActionNotFound(
            f"Run {run_id!r} waits for nobody's decision.",
            hint="`perdure approvals` lists what waits for a person.",
        )
    named = ", ".join(f"{w.action.action_id} ({views.subject(w.action)})" for w in waits)
    return InvalidRequest(
        f"Run {run_id!r} asks {len(waits)} things: {named}.", hint="Say which, by its id."
    )


def _told(run: Run, asked: str, *, as_json: bool) -> int:
    if as_json:
        print_json(run)
        return 0
    action = find_action(run, asked)
    how = views.decided(action.resolution) if action.resolution is not None else "not decided yet"
    out.print(
        f"Action {action.action_id} of Run {run.run_id}: {how}.", soft_wrap=True, markup=False
    )
    rest = ", ".join(each.action.action_id for each in open_actions(run))
    if rest:
        err.print(Text(f"It still asks: {rest}", style="dim"))
    return 0
