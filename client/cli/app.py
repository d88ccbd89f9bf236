"""The command `perdure`."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from temporalio.runtime import Runtime, TelemetryConfig

from perdure.client.cli import commands, config, continuing, keys, local, sessions, steering
from perdure.client.cli import files as files_
from perdure.client.cli.actions import command as actions
from perdure.client.cli.chat.command import chat
from perdure.client.cli.doctor import doctor
from perdure.client.cli.session import execute, leave_with, settings
from perdure.client.cli.start import start
from perdure.client.continuing import Fork
from perdure.client.listing import RunFilter
from perdure.engine.connect import leave
from perdure.engine.settings import Role
from perdure.runs.events import CancelMode
from perdure.runs.limits import Limits
from perdure.runs.status import RunStatus

app = typer.Typer(
    name="perdure",
    help="Durable agent Runs on Temporal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(help="Id of a Run.")]
Follow = Annotated[bool, typer.Option("--follow", help="Show it live until it ends.")]
Files = Annotated[list[str] | None, files_.FILE_OPTION]
Agents = Annotated[
    list[str] | None,
    typer.Option("--agents", help="Module or file that declares agents; may be repeated."),
]


app.command()(start)
app.command()(chat)
app.command()(doctor)
for decides in (actions.approvals, actions.approve, actions.reject, actions.answer):
    app.command()(decides)
app.add_typer(sessions.app, name="sessions")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")


@app.command()
def watch(run_id: RunId, as_json: Json = False) -> None:
    """Show a Run live until it ends: Steps, tokens, cost, time."""
    execute(commands.watch(settings(), run_id, as_json=as_json), as_json=as_json)


@app.command()
def get(
    run_id: RunId,
    tree: Annotated[
        bool, typer.Option("--tree", help="With the Runs of agents that it has called.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a Run as it stands."""
    shown = commands.tree if tree else commands.get
    execute(shown(settings(), run_id, as_json=as_json), as_json=as_json)


@app.command()
def result(
    run_id: RunId,
    call: Annotated[str, typer.Argument(help="Id of a tool call, or the number of its Step.")],
) -> None:
    """Print the whole result of a tool call, also where the model saw it cut."""
    execute(commands.result(settings(), run_id, call))


@app.command()
def files(
    run_id: RunId,
    save: Annotated[Path | None, typer.Option(help="Write them into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """List the files of a Run: what it was given, and what its tools returned."""
    execute(files_.files(settings(), run_id, save, as_json=as_json), as_json=as_json)


@app.command("list")
def list_(  # noqa: PLR0913 - one for each option
    status: Annotated[RunStatus | None, typer.Option(help="Only of this status.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this conversation.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that need you.")] = False,
    since: Annotated[datetime | None, typer.Option(help="Only created after this time.")] = None,
    called: Annotated[
        bool, typer.Option("--called", help="Also those that other Runs have called.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on where a page ended.")] = None,
    as_json: Json = False,
) -> None:
    """List Runs, newest first.

    Runs that other Runs have called, as agents do, are left out unless you ask for --called,
    --waiting or an --agent.
    """
    found = commands.listing(
        settings(),
        lambda: RunFilter(
            status=status,
            agent=agent,
            session_id=session,
            created_after=since,
            waiting=waiting,
            top_level=not (called or waiting or agent),
        ),
        limit,
        cursor,
        as_json=as_json,
    )
    execute(found, as_json=as_json)


@app.command()
def cancel(
    run_id: RunId,
    reason: Annotated[str, typer.Option(help="Kept with the Run.")] = "",
    mode: Annotated[
        CancelMode, typer.Option(help="Abort what is in flight, let it end, or forget the Run.")
    ] = "now",
    as_json: Json = False,
) -> None:
    """Ask a Run to stop."""
    execute(commands.cancel(settings(), run_id, reason, mode, as_json=as_json), as_json=as_json)


@app.command()
def send(
    run_id: RunId,
    text: Annotated[str, typer.Argument(help="What the user says; - reads standard input.")],
    file: Files = None,
    as_json: Json = False,
) -> None:
    """Say something to a Run that is going on; it joins before the next model call."""
    execute(steering.send(settings(), run_id, text, file, as_json=as_json), as_json=as_json)


@app.command()
def pause(
    run_id: RunId,
    reason: Annotated[str, typer.Option(help="Shown while the Run is paused.")] = "",
    as_json: Json = False,
) -> None:
    """Pause a Run: what is in flight ends, nothing new starts."""
    execute(steering.pause(settings(), run_id, reason, as_json=as_json), as_json=as_json)


@app.command()
def unpause(run_id: RunId, as_json: Json = False) -> None:
    """Let a paused Run go on."""
    execute(steering.unpause(settings(), run_id, as_json=as_json), as_json=as_json)


@app.command()
def steps(run_id: RunId, as_json: Json = False) -> None:
    """List the Steps of a Run; each that has ended can be forked from."""
    execute(continuing.steps(settings(), run_id, as_json=as_json), as_json=as_json)


@app.command()
def resume(
    run_id: RunId,
    with_limits: Annotated[str | None, typer.Option(help="Such as max_turns=50.")] = None,
    with_timeouts: Annotated[str | None, typer.Option(help="Such as run_s=600.")] = None,
    follow: Follow = False,
) -> None:
    """Let a Run go on that failed, was cancelled or ran out of time."""
    execute(continuing.resume(settings(), run_id, with_limits, with_timeouts, follow=follow))


@app.command()
def fork(  # noqa: PLR0913 - one for each option
    run_id: RunId,
    step: Annotated[int | None, typer.Option(min=0, help="The last Step taken over.")] = None,
    message: Annotated[str | None, typer.Option(help="What the user says then.")] = None,
    agent: Annotated[str | None, typer.Option(help="Another agent.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model.")] = None,
    with_limits: Annotated[str | None, typer.Option(help="Such as max_turns=50.")] = None,
    file: Files = None,
    follow: Follow = False,
) -> None:
    """Start a Run from a Step of another, which stays as it is."""

    def changed() -> Fork:
        limits = continuing.read_values(Limits, with_limits)
        files = files_.read_files(file)
        given = {"step": step, "message": message, "agent": agent, "model": model}
        return Fork(**given, files=files, limits=limits)

    execute(continuing.fork(settings(), run_id, changed, follow=follow))


@app.command()
def limits(
    run_id: RunId,
    values: Annotated[str, typer.Argument(help="Such as max_turns=50,max_cost=2.")],
    as_json: Json = False,
) -> None:
    """Change the limits of a Run that is going on, or waits for that."""
    execute(continuing.limits(settings(), run_id, values, as_json=as_json), as_json=as_json)


@app.command()
def ui(
    run_id: Annotated[str | None, typer.Argument(help="Id of a Run; all Runs without.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Print the address of a Run in the Temporal UI."""
    execute(commands.ui(settings(), run_id, open_in_browser=open_))


@app.command()
def dev(agents: Agents = None) -> None:
    """Run everything on this machine: Temporal server, model, worker, HTTP. Ctrl-C stops it.

    Steps that are running get PERDURE_GRACE_S to end; a second Ctrl-C does not wait for them.
    """
    execute(local.dev(local.with_agents(settings(), agents)))


@app.command()
def demo(
    question: Annotated[str, typer.Argument(help="What to ask the assistant.")] = local.QUESTION,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running.")] = False,
) -> None:
    """Start what is missing, execute one Run, show it, and stop again."""
    execute(local.demo(settings(), question, keep=keep))


@app.command()
def worker(
    agents: Agents = None,
    health_port: Annotated[
        int | None, typer.Option(help="Serve /healthz and /readyz on this port.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus on this port.")
    ] = None,
    role: Annotated[Role | None, typer.Option(help="What it does: everything by default.")] = None,
    tool_queue: Annotated[
        str | None, typer.Option(help="Execute the tools of this task queue, nothing else.")
    ] = None,
) -> None:
    """Run a worker that serves agents. SIGTERM or Ctrl-C lets it drain, a second one ends it."""
    options = {
        "--health-port": health_port,
        "--metrics-port": metrics_port,
        "--role": role,
        "--tool-queue": tool_queue,
    }
    local.worker(local.with_agents(settings(), agents), options)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one.")] = None,
) -> None:
    """Serve Runs and Sessions over HTTP. SIGTERM or Ctrl-C stops it."""
    leave_with(lambda: local.serve(host, port), as_json=False)


def main() -> None:
    """Entry point of the console script."""
    # Temporal's SDK would log to the standard output, between lines of JSON, that a server is away.
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=None)))
    code = 0
    try:
        app()
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else 1
    leave(code)
