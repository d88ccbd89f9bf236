"""One Run as a conversation shows it: words as they come, tools as one line each, the totals."""

import asyncio
import contextlib
from datetime import UTC, datetime

from perdure.client import deciding
from perdure.client.cli.actions.views import decided
from perdure.client.cli.actions.waits import noticing
from perdure.client.cli.chat.screen import Screen
from perdure.client.cli.chat.turn import CANCEL_REASON
from perdure.client.cli.render import STYLES, cost, elapsed, progress, tokens, waiting
from perdure.client.cli.session_views import said_by_user
from perdure.client.cli.words import short
from perdure.client.deciding import OpenAction
from perdure.client.follow import PendingStep
from perdure.client.manager import RunManager
from perdure.runs.errors import EngineUnavailable, ErrorCode, RunError
from perdure.runs.events import (
    ActionResolved,
    Event,
    HandedOff,
    RunPaused,
    RunQueued,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from perdure.runs.gate import open_actions
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.steps import ModelReply, Step, ToolCall

SPEAKING_EVERY_S = 0.2
"""How often a model that speaks is listened to: as often as workers tell."""
OTHERWISE_EVERY_S = 1.0


class Live:
    """Shows one Run from its beginning to its end.

    Args:
        manager: Follows it.
        screen: Where to.
        with_input: Show what the user said, too: somebody else said it, or said it long ago.
    """

    def __init__(self, manager: RunManager, screen: Screen, *, with_input: bool) -> None:
        self._manager = manager
        self._screen = screen
        self._with_input = with_input
        self.run: Run | None = None
        """As far as it is shown."""
        self.is_stopping = False
        """Whether nobody is asked any more."""
        self._asked: dict[tuple[str, str], OpenAction] = {}
        """What people are to decide, for it and the Runs below it."""
        self._decided: set[tuple[str, str]] = set()
        self._shown = ""
        """What is shown of the present answer."""
        self._last_said = ""

    async def follow(self, run_id: str) -> Run:
        """Show the Run until it has ended, or until `asking` says that the person is to decide.

        Called again, it goes on from there.

        *Cancellation*: does nothing to the Run.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal stays away.
        """
        async with noticing(self._manager, run_id, self._notice):
            if not await self._is_shown(run_id) and self.run is not None:
                return self.run
        run = await self._manager.get_run(run_id)
        self._ended(run)
        return run

    async def _is_shown(self, run_id: str) -> bool:
        """Show the Run to its end; tell whether it came that far."""
        shown = -1 if self.run is None else self.run.last_event
        events = self._manager.events(run_id, shown)
        upcoming = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                if self.asking is not None and await self._is_still_asked(self.asking):
                    return False
                done, _ = await asyncio.wait({upcoming}, timeout=self._pause_s)
                if not done:
                    await self._look()
                    continue
                event: Event | None = upcoming.result()
                if event is None:
                    return True
                self.run = self.run.apply(event) if self.run else Run.begin(event)
                self._happened(self.run, event)
                upcoming = asyncio.ensure_future(anext(events, None))
        finally:
            upcoming.cancel()

    @property
    def asking(self) -> OpenAction | None:
        """What the person is to decide now."""
        if self.run is None or self.run.status.is_terminal:
            return None
        if self.is_stopping or self.run.cancel is not None:
            return None
        own = {each.action_id for each in open_actions(self.run)}
        if any((self.run.run_id, each) in self._decided for each in own):
            return None  # what came of it is to be shown first
        for key, asked in self._asked.items():
            is_shown = asked.run_id != self.run.run_id or asked.action.action_id in own
            if is_shown and key not in self._decided:
                return asked
        return None

    def mark_decided(self, asked: OpenAction) -> None:
        """Take note that something was decided: it is not asked again."""
        self._decided.add((asked.run_id, asked.action.action_id))

    def _notice(self, asked: OpenAction) -> None:
        self._asked[asked.run_id, asked.action.action_id] = asked

    async def _is_still_asked(self, asked: OpenAction) -> bool:
        """Tell whether nobody has decided it elsewhere; so it is not asked here any more."""
        with contextlib.suppress(EngineUnavailable):
            run = await self._manager.get_run(asked.run_id)
            if asked in deciding.open_actions(run):
                return True
            self.mark_decided(asked)
        return False

    @property
    def _pause_s(self) -> float:
        return SPEAKING_EVERY_S if self._speaking() is not None else OTHERWISE_EVERY_S

    def _happened(self, run: Run, event: Event) -> None:
        match event:
            case RunQueued() if self._with_input:
                self._screen.note(said_by_user(event.start.input))
            case StepStarted():
                self._shown = ""
                self._screen.passing(_doing(run.steps[event.step - 1]))
            case StepCompleted() | StepFailed() if run.steps[event.step - 1].kind == "model":
                self._answered(run, event)
            case StepCompleted() | StepFailed():
                self._screen.note(_executed(run, event.step))
            case ActionResolved():
                self._screen.note(f"  {event.action_id}: {decided(event.resolution)}")
            case HandedOff():
                self._screen.note(f"  ⇒ The agent {event.agent} goes on.")
            case RunPaused():
                self._screen.note(waiting(event.waiting_on, run.run_id), style="yellow")
                self._screen.note("Do that in another terminal; Ctrl-C cancels the Run.")

    def _answered(self, run: Run, event: StepCompleted | StepFailed) -> None:
        step, reply = run.steps[event.step - 1], event.reply
        if step.purpose != "compact" and isinstance(reply, ModelReply):
            self._last_said = reply.said or ""
            self._grow(self._last_said, is_whole=True)
        self._screen.end_line()
        if step.error is not None and step.error.code is not ErrorCode.CANCELLED:
            self._screen.note(f"  ✗ {step.name}: {_why(step.error)}")
        if step.purpose == "compact" and step.error is None:
            self._screen.note("  (older messages were summed up)")
        for call in run.tool_calls:
            if call.model_step == step.number and call.status == "rejected":
                self._screen.note(_called(call))

    def _grow(self, text: str, *, is_whole: bool) -> None:
        """Show what is new of an answer; one that began anew is shown from its beginning."""
        if text.startswith(self._shown):
            self._screen.write(text[len(self._shown) :])
        elif is_whole or not self._shown.startswith(text):
            self._screen.end_line()
            self._screen.write(text)
        else:
            return  # a new attempt, which has not said more than the one before it
        self._shown = text

    def _speaking(self) -> Step | None:
        steps = self.run.steps if self.run is not None else ()
        return next((s for s in steps if s.status == "running" and s.kind == "model"), None)

    async def _look(self) -> None:
        """Show what the Events do not tell: words of an unfinished answer, the place in a queue."""
        if self.run is None:
            return
        # A nicety: a server that restarts must not end the view.
        with contextlib.suppress(EngineUnavailable):
            if self.run.status is RunStatus.PENDING:
                self._screen.passing(
                    _before_its_start(await self._manager.get_run(self.run.run_id))
                )
                return
            running = [each for each in self.run.steps if each.status == "running"]
            if not running:
                return
            told = await self._manager.pending_steps(self.run.run_id)
            pending = {each.step: each for each in told}
            if (step := self._speaking()) is not None:
                self._listen(step, pending.get(step.number))
            else:
                lines = [_doing(each, pending.get(each.number)) for each in running]
                self._screen.passing(", ".join(lines))

    def _listen(self, step: Step, pending: PendingStep | None) -> None:
        if pending is not None and pending.next_attempt_at is not None:
            wait_s = max((pending.next_attempt_at - datetime.now(UTC)).total_seconds(), 0)
            self._screen.end_line()
            why = f"attempt {pending.attempt} in {wait_s:.0f} s, after: {pending.last_failure}"
            self._screen.passing(why)
        elif pending is not None and pending.partial_text and step.purpose != "compact":
            self._grow(pending.partial_text, is_whole=False)
        else:
            self._screen.passing(_doing(step))

    def _ended(self, run: Run) -> None:
        if run.output and run.output != self._last_said:
            self._screen.write(run.output)
        self._screen.end_line()
        if run.status is RunStatus.CANCELLED:
            self._screen.note(_cancelled(run), style=STYLES[run.status])
        elif run.error is not None:
            self._screen.note(f"{run.error.code}: {run.error}", style=STYLES[run.status])
        totals = tokens(run.usage), cost(run.usage), elapsed(run), run.run_id
        self._screen.note(" · ".join(totals))


def _doing(step: Step, pending: PendingStep | None = None) -> str:
    what = step.name if step.kind == "tool" else "thinking"
    how_far = progress(pending) if pending is not None else ""
    if step.purpose == "compact":
        what = "summing up older messages"
    if step.child_run_id is not None:
        what += f" (Run {step.child_run_id})"
    took = datetime.now(UTC) - (step.started_at or datetime.now(UTC))
    return f"{what} … {took.total_seconds():.0f} s {how_far}".rstrip()


def _before_its_start(run: Run) -> str:
    if run.waiting_on is not None:
        return waiting(run.waiting_on, run.run_id)
    return "Waiting for a worker to take it."


def _cancelled(run: Run) -> str:
    if run.cancel is None:
        return f"Cancelled. {run.error or ''}"
    reason = "" if run.cancel.reason in ("", CANCEL_REASON) else f" ({run.cancel.reason})"
    what = "forgotten" if run.cancel.mode == "rollback" else "kept"
    return f"Cancelled{reason}. What was said is {what}."


def _executed(run: Run, step: int) -> str:
    return _called(next(call for call in reversed(run.tool_calls) if call.step == step))


def _called(call: ToolCall) -> str:
    asked = f"{call.name}({short(call.arguments)})"
    if call.error is not None and call.error.code is ErrorCode.CANCELLED:
        return f"  - {asked} was stopped"
    if call.error is not None:
        return f"  ✗ {asked}: {_why(call.error)}"
    return f"  ✓ {asked} → {short(call.result or '')}"


def _why(error: RunError) -> str:
    return f"{error.code}: {short(error.message)}"
