"""The commands `perdure approvals`, `approve`, `reject` and `answer`."""

from typing import Annotated

import typer

from perdure.client.cli.actions import deciding
from perdure.client.cli.actions.deciding import Asked
from perdure.client.cli.session import execute, settings
from perdure.client.listing import RunFilter

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(help="Id of a Run.")]
Action = Annotated[
    str | None,
    typer.Argument(help="Id of the action, or of its tool call; the open one, if it is alone."),
]
Note = Annotated[str, typer.Option(help="Kept with the decision; the model reads that of a no.")]
By = Annotated[str | None, typer.Option(help="Who decides; the name you are logged in with.")]


def approvals(
    run_id: Annotated[
        str | None, typer.Argument(help="Show what this Run, and those it called, ask in full.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    session_id: Annotated[str | None, typer.Option(help="Only of this conversation.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Of at most so many Runs.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None,
    as_json: Json = False,
) -> None:
    """List what Runs wait for people to decide: tool calls to approve, questions."""
    if run_id is not None:
        execute(deciding.of_run(settings(), run_id, as_json=as_json), as_json=as_json)
    found = deciding.listing(
        settings(),
        lambda: RunFilter(agent=agent, session_id=session_id),
        limit,
        cursor,
        as_json=as_json,
    )
    execute(found, as_json=as_json)


def approve(
    run_id: RunId,
    action: Action = None,
    note: Note = "",
    edit_args: Annotated[
        str | None,
        typer.Option(help="Execute it with these instead: a JSON object, @file or - to read it."),
    ] = None,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Say yes to something that a Run asks; it goes on."""
    asked = Asked(run_id, action, by)
    execute(deciding.approve(settings(), asked, note, edit_args, as_json=as_json), as_json=as_json)


def reject(
    run_id: RunId, action: Action = None, note: Note = "", by: By = None, as_json: Json = False
) -> None:
    """Say no to something that a Run asks, or decline to answer; it goes on without."""
    asked = Asked(run_id, action, by)
    execute(deciding.reject(settings(), asked, note, as_json=as_json), as_json=as_json)


def answer(
    run_id: RunId,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="text",
            help="The answer, or the number of a choice; - reads standard input. Before it, the id "
            "of the action, if several are open.",
        ),
    ],
    by: By = None,
    as_json: Json = False,
) -> None:
    """Answer a question that a Run asks; it goes on."""
    if len(words) > 2:
        raise typer.BadParameter("Put the answer in quotes.", param_hint="TEXT")
    asked = Asked(run_id, words[0] if len(words) == 2 else None, by)
    execute(deciding.answer(settings(), asked, words[-1], as_json=as_json), as_json=as_json)
