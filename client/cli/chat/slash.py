"""What a person may say to the chat itself: lines that begin with a slash."""

from collections.abc import Awaitable, Callable

from perdure.client.cli.chat.conversation import Conversation
from perdure.client.cli.session import out
from perdure.client.cli.session_commands import new_id
from perdure.client.cli.session_views import session_view
from perdure.runs.errors import SessionNotFound

HELP = """\
/usage        tokens and cost of the Session, and its limits
/fork [ID]    go on in a fork; this Session stays as it is
/clear        forget what was said; the totals stay
/agent NAME   talk to another agent, from the next message on
/model NAME   use another model; `default` is the agent's own
/quit         leave, as Ctrl-D does; the Session lives on

Ctrl-C cancels the Run that goes on and keeps what was said; twice, it leaves.
What you type while a Run goes on waits, and is there when the prompt is back.
What you paste is one message; a \\ at the end of a line goes on in the next one.
A space before a / says it to the agent."""


class Leave(Exception):
    """The person wants to leave."""


async def obey(conversation: Conversation, line: str) -> None:
    """Do what a line says that begins with a slash.

    Raises:
        Leave: When it says so.
        PerdureError: When it can't be done.
    """
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        conversation.screen.note(
            f"There is no command /{name}; /help lists those there are. "
            "To say it to the agent, put a space before it.",
            style="yellow",
        )
        return
    await command(conversation, rest.strip())


async def _help(conversation: Conversation, rest: str) -> None:
    conversation.screen.note(HELP, style="")


async def _usage(conversation: Conversation, rest: str) -> None:
    report = await conversation.report()
    if report is None:
        conversation.screen.note("Nothing was said yet.")
    else:
        out.print(session_view(report), soft_wrap=True)


async def _fork(conversation: Conversation, rest: str) -> None:
    await _must_have_begun(conversation)
    before = conversation.session.session_id
    forked = await conversation.session.fork(rest or new_id())
    conversation.move(forked.session_id)
    conversation.screen.note(
        f"This is Session {forked.session_id} now; the other one stays: perdure chat {before}"
    )


async def _clear(conversation: Conversation, rest: str) -> None:
    await _must_have_begun(conversation)
    await conversation.session.clear()
    conversation.screen.note("What was said is forgotten; the totals stay.")


async def _must_have_begun(conversation: Conversation) -> None:
    if await conversation.report() is None:
        raise SessionNotFound("Nothing was said yet.", hint="A Session begins with a message.")


async def _agent(conversation: Conversation, rest: str) -> None:
    conversation.agent = rest or conversation.agent
    conversation.screen.note(f"The agent is {conversation.agent}.")


async def _model(conversation: Conversation, rest: str) -> None:
    if rest:
        conversation.model = None if rest == "default" else rest
    conversation.screen.note(f"The model is {conversation.model or 'that of the agent'}.")


async def _quit(conversation: Conversation, rest: str) -> None:
    raise Leave


COMMANDS: dict[str, Callable[[Conversation, str], Awaitable[None]]] = {
    "help": _help,
    "usage": _usage,
    "fork": _fork,
    "clear": _clear,
    "agent": _agent,
    "model": _model,
    "quit": _quit,
    "exit": _quit,
}
