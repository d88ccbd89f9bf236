"""A conversation: its Session, with whom one talks in it, and what was said last."""

from dataclasses import dataclass

from rich.text import Text

from perdure.client.cli import session_views
from perdure.client.cli.actions.deciding import login_name
from perdure.client.cli.chat.deciding import Decision
from perdure.client.cli.chat.live import Live
from perdure.client.cli.chat.screen import Screen
from perdure.client.cli.chat.turn import CANCEL_REASON, Message, Turn
from perdure.client.deciding import OpenAction
from perdure.client.manager import RunManager
from perdure.client.sessions import SessionHandle
from perdure.client.workers import require_worker
from perdure.runs.errors import (
    ActionAlreadyResolved,
    RunAlreadyTerminal,
    SessionBusy,
    SessionNotFound,
)
from perdure.runs.limits import Limits
from perdure.runs.messages import UserMessage
from perdure.sessions.contract import SessionReport

SHOWN_MESSAGES = 20
"""Of a conversation that is taken up again: the latest."""
DEFAULT_AGENT = "assistant"


@dataclass(frozen=True)
class Chosen:
    """What the command line says.

    Attributes:
        session_id: The Session.
        agent: Whom to talk to; the agent of the Session's latest Run when not given.
        model: Instead of the agent's.
        limits: Of each Run.
    """

    session_id: str
    agent: str | None
    model: str | None
    limits: Limits


async def usual_agent(session: SessionHandle) -> str:
    """Return the agent of the Session's latest Run, or the one that is always there."""
    latest = (await session.runs(limit=1)).runs
    return latest[0].agent if latest else DEFAULT_AGENT


class Conversation:
    """One conversation, as a person has it.

    Args:
        manager: Connected.
        screen: Where it is shown.
        chosen: With whom, in which Session.
    """

    def __init__(self, manager: RunManager, screen: Screen, chosen: Chosen) -> None:
        self._manager = manager
        self._chosen = chosen
        self.screen = screen
        self.session = manager.session(chosen.session_id)
        self.agent = chosen.agent or DEFAULT_AGENT
        self.model = chosen.model
        self.unsent: Message | None = None
        """The latest message, as long as it is not known to have begun."""
        self.has_begun = False
        """Whether there is such a Session."""
        self._live: Live | None = None
        """What is shown, or was shown last."""

    async def open(self) -> list[str]:
        """Show what was said so far, and follow what goes on; return what the user said.

        Raises:
            NoWorker: When nobody would answer.
            EngineUnavailable: When Temporal does not answer.
        """
        await require_worker(self._manager.client, self._manager.task_queue)
        report = await self.report()
        if report is not None and self._chosen.agent is None:
            self.agent = await usual_agent(self.session)
        began = "" if report is not None else "New "
        self.screen.note(
            f"{began}Session {self.session.session_id}, agent {self.agent}. "
            "/help tells more, Ctrl-D leaves."
        )
        said = await self._history() if report is not None else []
        if report is not None and report.active_run_id is not None:
            await self.join(report.active_run_id)
        return said

    async def _history(self) -> list[str]:
        messages = await self.session.messages()
        earlier = len(messages) - SHOWN_MESSAGES
        if earlier > 0:
            command = f"perdure sessions messages {self.session.session_id}"
            self.screen.note(f"{earlier} earlier messages: {command}")
        for line in session_views.conversation(messages[-SHOWN_MESSAGES:]):
            self.screen.note(line)
        return [each.content for each in messages if isinstance(each, UserMessage)]

    async def join(self, run_id: str) -> None:
        """Follow a Run that somebody else has started, or this person earlier."""
        self.screen.note(f"Run {run_id} is going on; Ctrl-C cancels it.")
        self._live = Live(self._manager, self.screen, with_input=True)
        await Turn(self._manager, self._live.follow, self.screen.note).join(run_id)

    @property
    def asking(self) -> OpenAction | None:
        """What the person is to decide before the Run that goes on is followed further."""
        return self._live.asking if self._live is not None else None

    async def decide(self, asked: OpenAction, decision: Decision) -> None:
        """Tell a Run what the person has decided.

        Raises:
            PerdureError: When it can't be told; what was decided elsewhere meanwhile is shown.
        """
        what, by = (asked.run_id, asked.action.action_id), login_name()
        try:
            match decision.verdict:
                case "approved":
                    await self._manager.approve(*what, by=by, arguments=decision.arguments)
                case "rejected":
                    await self._manager.reject(*what, by=by, note=decision.note)
                case "answered":
                    await self._manager.answer(*what, decision.answer, by=by)
        except (ActionAlreadyResolved, RunAlreadyTerminal) as exc:
            self.screen.note(str(exc), style="yellow")
        if self._live is None or self._live.run is None:
            return
        self._live.mark_decided(asked)
        if asked.run_id != self._live.run.run_id:  # no Event of the Run shown tells
            self.screen.note(f"  {asked.action.action_id} of Run {asked.run_id} is decided.")

    async def go_on(self, *, cancel: bool = False) -> None:
        """Follow the Run further that had asked something, or cancel it first."""
        if self._live is None or self._live.run is None:
            return
        run_id = self._live.run.run_id
        if cancel:
            await self._manager.cancel(run_id, CANCEL_REASON)
            self._live.is_stopping = True
        await Turn(self._manager, self._live.follow, self.screen.note).join(run_id)

    def message(self, text: str) -> Message:
        """Return a message; the same one again, if it is not known to have been said."""
        new = Message(text, self.agent, self.model, self._chosen.limits)
        return self.unsent if self.unsent is not None and self.unsent == new else new

    async def say(self, text: str) -> None:
        """Say something, and show what becomes of it.

        Where another client is talking in the Session, its Run is followed; then the person
        may still say it, or not.

        Raises:
            PerdureError: As `SessionHandle.start_run`.
        """
        self.unsent = message = self.message(text)
        self._live = Live(self._manager, self.screen, with_input=False)
        turn = Turn(self._manager, self._live.follow, self.screen.note)
        try:
            await turn.say(self.session, message, "reject")
        except SessionBusy as exc:
            self.screen.note("Somebody else is talking in this Session.", style="yellow")
            await self.join(exc.active_run_id)
        finally:
            self.has_begun = self.has_begun or turn.run_id is not None
            if turn.run_id is not None:
                self.unsent = None

    async def report(self) -> SessionReport | None:
        """Return where the Session stands; none if there is none that is open.

        Raises:
            EngineUnavailable: When Temporal does not answer.
        """
        try:
            report = await self.session.get()
        except SessionNotFound:
            return None
        if report.ended_at is not None:
            return None
        self.has_begun = True
        return report

    def move(self, session_id: str) -> None:
        """Go on in another Session."""
        self.session = self._manager.session(session_id)

    @property
    def way_back(self) -> Text:
        """How the person comes back."""
        return Text(f"The Session lives on: perdure chat {self.session.session_id}", style="dim")
