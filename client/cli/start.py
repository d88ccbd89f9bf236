"""`perdure start`: a Run, with all that may be said about it."""

from pathlib import Path
from typing import Annotated

import typer

from perdure.client.cli import commands, continuing
from perdure.client.cli.files import FILE_OPTION, read_files
from perdure.client.cli.session import execute, settings
from perdure.client.outputs import read_schema
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.sessions.admission import OnBusy


def start(  # noqa: PLR0913 - one for each option
    text: Annotated[str, typer.Argument(help="What the user says; - reads standard input.")],
    agent: Annotated[str, typer.Option(help="Name of an agent.")] = "assistant",
    session: Annotated[str | None, typer.Option(help="Conversation it belongs to.")] = None,
    on_busy: Annotated[
        OnBusy,
        typer.Option(
            help="While another Run of its Session goes on: be refused; wait for its turn; take "
            "its place; take it, and have it forgotten; or be said to it."
        ),
    ] = "reject",
    model: Annotated[str | None, typer.Option(help="Instead of the agent's.")] = None,
    limits: Annotated[str | None, typer.Option(help="Such as max_turns=50,max_cost=2.")] = None,
    on_limit: Annotated[
        OnLimit | None, typer.Option(help="What happens when a limit is reached.")
    ] = None,
    on_unknown: Annotated[
        OnUnknown | None,
        typer.Option(help="When nobody knows what a tool did: tell the model, or ask a person."),
    ] = None,
    timeouts: Annotated[str | None, typer.Option(help="Such as run_s=600,tool_s=30.")] = None,
    output_schema: Annotated[
        Path | None, typer.Option(help="File with the JSON schema that the output has to fit.")
    ] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Started again with the same one, it is the same Run.")
    ] = None,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, then print the output.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Show it live until it ends.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start a Run and print its id."""

    def chosen() -> commands.Start:
        options = {
            "session_id": session,
            "on_busy": on_busy,
            "idempotency_key": idempotency_key,
            "model": model,
            "limits": continuing.read_values(Limits, limits),
            "on_limit": on_limit,
            "on_unknown": on_unknown,
            "timeouts": continuing.read_values(Timeouts, timeouts),
            "files": read_files(file),
            "output_schema": read_schema(output_schema),
        }
        return commands.Start(text, agent, options, wait=wait, follow=follow)

    execute(commands.start(settings(), chosen, as_json=as_json), as_json=as_json)
