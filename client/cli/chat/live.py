"""One Run as a conversation shows it: words as they come, tools as one line each, the totals."""

import contextlib
from datetime import UTC, datetime

from perdure.client import deciding
from perdure.client.cli.actions.views import decided
from perdure.client.cli.actions.waits import noticing
from perdure.client.cli.chat.screen import Screen
from perdure.client.cli.chat.turn import CANCEL_REASON
from perdure.client.cli.render import STYLES, cost, elapsed, tokens, waiting
from perdure.client.cli.session_views import said_by_user
from perdure.client.cli.under_way import doing, retrying
from perdure.client.cli.words import short
from perdure.client.deciding import OpenAction
from perdure.client.live.run import LiveRun, UnderWay
from perdure.client.manager import RunManager
from perdure.runs.deltas import (
    ArgumentsDelta,
    DeltaBase,
    LiveEvent,
    OutputTextDelta,
    Position,
    Reset,
    StepRetrying,
    position_of,
)
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

TICK_S = 1.0
"""After so long without news, the line that passes is written anew: seconds go by in it."""
DOING_CHARS = 50
"""Of thoughts and arguments: the end of the line that passes, whose beginning is a few words."""


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
        self._position = Position()
        """How far the Run is shown."""
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
        if await self._is_asked():
            return False
        async with self._manager.live(run_id) as live:
            async for item in live.read(self._position, alive_s=TICK_S):
                if item is None:
                    await self._tick(live)
                else:
                    self._position = position_of(item)
                    self._told(item, live)
                if await self._is_asked():
                    return False
        return True

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

    async def _is_asked(self) -> bool:
        """Tell whether the person is to decide something that nobody has decided elsewhere."""
        asked = self.asking
        if asked is None:
            return False
        with contextlib.suppress(EngineUnavailable):
            run = await self._manager.get_run(asked.run_id)
            if asked in deciding.open_actions(run):
                return True
            self.mark_decided(asked)
        return False

    def _told(self, item: LiveEvent, live: LiveRun) -> None:
        match item:
            case OutputTextDelta():
                self._shown += item.delta
                self._screen.write(item.delta)
            case StepRetrying():
                self._withdraw(retrying(UnderWay(item.attempt, item.reason, item.at)))
            case DeltaBase():
                if isinstance(item, ArgumentsDelta):
                    self._screen.end_line()
                self._do(live)
            case Reset():
                self.run = item.run
                self._screen.note(f"Run {item.run_id}: what it did so far can't be shown again.")
            case _:
                self.run = self.run.apply(item) if self.run else Run.begin(item)
                self._happened(self.run, item)

    def _happened(self, run: Run, event: Event) -> None:
        match event:
            case RunQueued() if self._with_input:
                self._screen.note(said_by_user(event.start.input))
            case StepStarted():
                self._shown = ""
                self._screen.passing(_doing(run.steps[event.step - 1], None))
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
            if not self._last_said.startswith(self._shown):
                self._withdraw("the answer is another one.")
            self._screen.write(self._last_said[len(self._shown) :])
            self._shown = ""
        self._screen.end_line()
        if step.error is not None and step.error.code is not ErrorCode.CANCELLED:
            self._screen.note(f"  ✗ {step.name}: {_why(step.error)}")
        if step.purpose == "compact" and step.error is None:
            self._screen.note("  (older messages were summed up)")
        for call in run.tool_calls:
            if call.model_step == step.number and call.status == "rejected":
                self._screen.note(_called(call))

    def _withdraw(self, why: str) -> None:
        """Show that what is shown of the present answer is void, or in passing what comes."""
        if self._shown:
            self._screen.note(f"  ✗ What stands above is void: {why}")
        else:
            self._screen.passing(why)
        self._shown = ""

    async def _tick(self, live: LiveRun) -> None:
        """Show what nobody tells: the seconds that go by, the place in a queue."""
        if self.run is not None and self.run.status is RunStatus.PENDING:
            # A nicety: a server that restarts must not end the view.
            with contextlib.suppress(EngineUnavailable):
                run = await self._manager.get_run(self.run.run_id)
                self._screen.passing(_before_its_start(run))
        else:
            self._do(live)

    def _do(self, live: LiveRun) -> None:
        """Show, in passing, what the Steps do that run."""
        steps = self.run.steps if self.run is not None else ()
        running = [each for each in steps if each.status == "running"]
        if running:
            doing = (_doing(each, live.under_way.get(each.number)) for each in running)
            self._screen.passing(", ".join(doing))

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


def _doing(step: Step, under_way: UnderWay | None) -> str:
    how = doing(under_way, DOING_CHARS).plain if under_way is not None else ""
    if step.kind == "model" and how:
        return how
    what = step.name if step.kind == "tool" else "thinking"
    if step.purpose == "compact":
        what = "summing up older messages"
    if step.child_run_id is not None:
        what += f" (Run {step.child_run_id})"
    took = datetime.now(UTC) - (step.started_at or datetime.now(UTC))
    return f"{what} … {took.total_seconds():.0f} s {how}".rstrip()


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
