"""What the commands on Sessions do: `perdure sessions …`."""

import json
import secrets
import sys
from typing import Any

from rich.text import Text

from perdure.client.cli.continuing import read_values
from perdure.client.cli.render import runs_table
from perdure.client.cli.session import err, out, print_json
from perdure.client.cli.session_views import conversation, session_view, sessions_table
from perdure.client.deleting import Deleted
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs.errors import InvalidRequest
from perdure.sessions.parts import SessionSettings


def new_id() -> str:
    """Return an id for a Session, short enough to be typed again."""
    return f"chat-{secrets.token_hex(4)}"


async def listing(settings: Settings, limit: int, cursor: str | None, *, as_json: bool) -> int:
    """List Sessions."""
    manager = await RunManager.connect(settings)
    found = await manager.list_sessions(limit=limit, cursor=cursor)
    if as_json:
        print_json(found)
        return 0
    out.print(sessions_table(found) if found.sessions else "No Sessions.")
    _tell_of_more(found.next_cursor)
    return 0


async def get(settings: Settings, session_id: str, *, variables: bool, as_json: bool) -> int:
    """Show where a Session stands; only its variables need a worker."""
    session = (await RunManager.connect(settings)).session(session_id)
    report = await session.get()
    told = await session.variables() if variables else None
    if as_json:
        print_json(report if told is None else report.model_copy(update={"variables": told}))
    else:
        out.print(session_view(report, told), soft_wrap=True)
    return 0


async def runs(
    settings: Settings, session_id: str, limit: int, cursor: str | None, *, as_json: bool
) -> int:
    """List the Runs of a Session."""
    session = (await RunManager.connect(settings)).session(session_id)
    found = await session.runs(limit=limit, cursor=cursor)
    if not found.runs and cursor is None:
        await session.get()  # says that there is none
    if as_json:
        print_json(found)
        return 0
    out.print(runs_table(found) if found.runs else "No Runs.")
    _tell_of_more(found.next_cursor)
    return 0


async def messages(settings: Settings, session_id: str, *, as_json: bool) -> int:
    """Print the conversation."""
    said = await (await RunManager.connect(settings)).session(session_id).messages()
    if as_json:
        for message in said:
            print_json(message)
        return 0
    for line in conversation(said):
        out.print(line, soft_wrap=True)
    return 0


async def configure(
    settings: Settings, session_id: str, values: str | None, variables: str | None, *, as_json: bool
) -> int:
    """Change limits and variables of a Session, which begins with this if there is none."""
    chosen, replaced = read_values(SessionSettings, values), _variables(variables)
    if not values and replaced is None:
        known = ", ".join(SessionSettings.model_fields)
        raise InvalidRequest("Nothing to change.", hint=f"Give --variables or any of: {known}.")
    session = (await RunManager.connect(settings)).session(session_id)
    report = await session.configure(chosen, variables=replaced)
    if as_json:
        print_json(report)
    else:
        out.print(session_view(report, report.variables), soft_wrap=True)
    return 0


def _variables(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        given = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as exc:
        raise InvalidRequest(f"The variables are no JSON: {exc}.") from exc
    if not isinstance(given, dict):
        raise InvalidRequest("The variables must be a JSON object.", hint='Such as {"user": "Ada"}')
    return given


async def clear(settings: Settings, session_id: str, *, as_json: bool) -> int:
    """Forget what was said in a Session."""
    report = await (await RunManager.connect(settings)).session(session_id).clear()
    if as_json:
        print_json(report)
    else:
        out.print(f"Session {session_id} has forgotten what was said; its totals stay.")
    return 0


async def fork(settings: Settings, session_id: str, new: str | None, run_id: str | None) -> int:
    """Begin another Session with the conversation of this one; print its id."""
    session = (await RunManager.connect(settings)).session(session_id)
    forked = await session.fork(new or new_id(), run_id=run_id)
    out.print(forked.session_id, soft_wrap=True)
    return 0


async def delete(settings: Settings, session_id: str, *, sure: bool, as_json: bool) -> int:
    """Delete a Session with its Runs, once that was confirmed; say what is gone, and what not."""
    session = (await RunManager.connect(settings)).session(session_id)
    if not sure and not _confirmed(session_id):
        err.print("Nothing was deleted.")
        return 0
    deleted = await session.delete()
    if as_json:
        print_json(deleted)
    else:
        _tell_deleted(session_id, deleted)
    return 0


def _confirmed(session_id: str) -> bool:
    if not (sys.stdin.isatty() and err.is_terminal):
        raise InvalidRequest(
            f"Session {session_id!r} was not deleted: nobody is there to ask.",
            hint="Say --yes.",
        )
    question = f"Cancel what goes on in Session {session_id}, and delete it with its Runs? [y/N] "
    return err.input(Text(question)).strip().lower() in ("y", "yes")


def _tell_deleted(session_id: str, deleted: Deleted) -> None:
    count = len(deleted.run_ids)
    runs = "1 Run" if count == 1 else f"{count} Runs"
    out.print(f"Deleted Session {session_id} and {runs}.")
    err.print(
        Text(
            "Temporal takes a while to do it, half a minute or so. Large payloads in the external "
            "storage stay until the storage's own rules delete them; so do archives and backups.",
            style="dim",
        )
    )


def _tell_of_more(cursor: str | None) -> None:
    if cursor:
        err.print(Text(f"More: --cursor {cursor}", style="dim"))
