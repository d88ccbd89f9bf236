"""The commands `perdure sessions …`."""

from typing import Annotated

import typer

from perdure.client.cli import session_commands
from perdure.client.cli.session import execute, settings

app = typer.Typer(
    help="Conversations: what goes on in them, what was said, what they used.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionId = Annotated[str, typer.Argument(help="Id of a Session.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")]
Cursor = Annotated[str | None, typer.Option(help="Go on where a page ended.")]


@app.command("list")
def list_(limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List Sessions, newest first."""
    execute(session_commands.listing(settings(), limit, cursor, as_json=as_json), as_json=as_json)


@app.command()
def get(
    session_id: SessionId,
    variables: Annotated[
        bool, typer.Option("--variables", help="Its variables, too; a worker is asked for them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a Session: active Run, queue, totals, limits, expiry."""
    shown = session_commands.get(settings(), session_id, variables=variables, as_json=as_json)
    execute(shown, as_json=as_json)


@app.command()
def runs(
    session_id: SessionId, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False
) -> None:
    """List the Runs of a Session, newest first."""
    found = session_commands.runs(settings(), session_id, limit, cursor, as_json=as_json)
    execute(found, as_json=as_json)


@app.command()
def messages(session_id: SessionId, as_json: Json = False) -> None:
    """Print what was said; with --json whole, one message a line."""
    execute(session_commands.messages(settings(), session_id, as_json=as_json), as_json=as_json)


@app.command()
def configure(
    session_id: SessionId,
    values: Annotated[
        str | None, typer.Argument(help="Such as max_tokens=50000,max_cost=2,idle_s=86400.")
    ] = None,
    variables: Annotated[
        str | None,
        typer.Option(help="A JSON object that replaces them all; - reads standard input."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change what a Session may use, how long it lives, the variables that its Runs get."""
    changed = session_commands.configure(settings(), session_id, values, variables, as_json=as_json)
    execute(changed, as_json=as_json)


@app.command()
def clear(session_id: SessionId, as_json: Json = False) -> None:
    """Forget what was said; totals, settings and variables stay."""
    execute(session_commands.clear(settings(), session_id, as_json=as_json), as_json=as_json)


@app.command()
def fork(
    session_id: SessionId,
    new: Annotated[str | None, typer.Argument(help="Id of the fork; chosen if not given.")] = None,
    run: Annotated[
        str | None, typer.Option(help="Fork after this Run, not after the last.")
    ] = None,
) -> None:
    """Begin another Session with this conversation, and print its id; this one stays."""
    execute(session_commands.fork(settings(), session_id, new, run))


@app.command()
def delete(
    session_id: SessionId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Cancel what goes on in a Session, and delete it and its Runs from Temporal."""
    deleted = session_commands.delete(settings(), session_id, sure=yes, as_json=as_json)
    execute(deleted, as_json=as_json)
