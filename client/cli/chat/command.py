"""The command `perdure chat`."""

import asyncio
import sys
from typing import Annotated

import typer

from perdure.client.cli.chat.conversation import Chosen, Conversation, usual_agent
from perdure.client.cli.chat.loop import Loop
from perdure.client.cli.chat.piped import Piped
from perdure.client.cli.chat.screen import Screen
from perdure.client.cli.continuing import read_values
from perdure.client.cli.session import err, leave_with, out, settings
from perdure.client.cli.session_commands import new_id
from perdure.client.manager import RunManager
from perdure.runs.limits import Limits


def chat(
    session: Annotated[
        str | None, typer.Argument(help="Id of a Session; without, a new one.")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="Whom to talk to; if not given, as before, or the assistant."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Instead of the agent's.")] = None,
    limits: Annotated[
        str | None, typer.Option(help="Of each Run, such as max_turns=50,max_cost=2.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Read lines, and print each Run as JSON.")
    ] = False,
) -> None:
    """Talk with an agent; /help in it tells more.

    From a pipe, each line is one message, only the answers are printed, and the exit code says
    how the last Run ended.
    """

    def talk() -> int:
        chosen = Chosen(session or new_id(), agent, model, read_values(Limits, limits))
        return _talk(chosen, as_json=as_json)

    leave_with(talk, as_json=as_json)


def _talk(chosen: Chosen, *, as_json: bool) -> int:
    configured = settings()
    with asyncio.Runner() as runner:
        manager = runner.run(RunManager.connect(configured))
        if sys.stdin.isatty() and not as_json:
            conversation = Conversation(manager, Screen(out, err), chosen)
            return Loop(runner, conversation).run()
        session = manager.session(chosen.session_id)
        agent = chosen.agent or runner.run(usual_agent(session))
        piped = Piped(runner, manager, session, as_json=as_json)
        return piped.run(agent, chosen.model, chosen.limits)
