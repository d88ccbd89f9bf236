"""`PlainText`: what an agent says, for `curl -N` and a terminal.

Only that, as it is said: no tools, no Steps. A line in brackets tells what has to be known to
understand it: that what was shown was taken back, or that people are waited for. A Run that did
not complete ends with a line `error (code): sentence`.
"""

from perdure.client.cli.words import visible
from perdure.gateway.streaming.heard import Heard
from perdure.runs import gate
from perdure.runs.deltas import DeltaBase, LiveEvent, OutputTextDelta, Reset, StepRetrying
from perdure.runs.events import (
    ActionRequired,
    EndBase,
    Event,
    RunPaused,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, WaitingOn
from perdure.runs.steps import ModelReply

TAKEN_BACK = "[taken back; it begins anew]"


class PlainText:
    """Encodes for one follower. Give it `opening` first, then each item that follows.

    Args:
        run: As it stands where the stream begins; none when that is the Run's first Event.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._run = run
        self._hidden: int | None = None
        """The Step that sums up older messages; nobody is told that."""
        self._attempt = 0
        self._log = 0
        self._heard = Heard()
        self._ended_with = "\n\n"
        self._is_said = False
        """Whether what follows is said in another Step than what was said last."""

    def opening(self) -> str:
        """Return what was said before the stream begins."""
        return "" if self._run is None else self._whole(self._run)

    def encode(self, item: LiveEvent) -> str:
        """Return the next item of the follower as text; most are none."""
        if isinstance(item, Reset):
            return self._line("[from the beginning]") + self._whole(item.run)
        if isinstance(item, DeltaBase):
            return self._delta(item)
        return self._event(item)

    def _delta(self, item: DeltaBase) -> str:
        if item.step == self._hidden:
            return ""
        out = ""
        if item.attempt > self._attempt:
            out = self._taken_back()
            self._attempt, self._log = item.attempt, 0
        if isinstance(item, StepRetrying) or item.attempt < self._attempt:
            return out
        offset, delta = getattr(item, "offset", None), getattr(item, "delta", "")
        if offset is None or offset > self._log:
            return out
        piece = delta[self._log - offset :]
        self._log += len(piece)
        return out + self._say(piece) if isinstance(item, OutputTextDelta) else out

    def _event(self, item: Event) -> str:
        match item:
            case StepStarted(kind="model"):
                self._hidden = item.step if item.purpose == "compact" else None
                self._attempt, self._log, self._heard = 0, 0, Heard()
            case StepCompleted(reply=ModelReply()) | StepFailed():
                return self._ended_step(item)
            case ActionRequired():
                asked = "; ".join(each.reason or each.name for each in item.actions)
                return self._line(f"[waits for a person: {asked}]")
            case RunPaused():
                return self._line(_waits(item.waiting_on))
            case EndBase(run=Run() as run):
                return self._end(run)
        return ""

    def _ended_step(self, item: StepCompleted | StepFailed) -> str:
        reply = item.reply
        if item.step == self._hidden or not (reply is None or isinstance(reply, ModelReply)):
            return ""
        said = (reply.said or "") if reply is not None else ""
        rest = self._heard.rest_of(said)
        out = self._taken_back() if rest is None else ""
        out += self._say(said if rest is None else rest)
        self._heard, self._is_said = Heard(), True
        return out

    def _whole(self, run: Run) -> str:
        out = ""
        for step in run.steps:
            if step.kind == "model" and step.purpose != "compact" and step.text:
                out += self._say(step.text)
                self._is_said = True
        last = run.steps[-1] if run.steps else None
        is_compact = last is not None and last.purpose == "compact" and last.status == "running"
        self._hidden = last.number if last is not None and is_compact else None
        self._attempt, self._log, self._heard = 0, 0, Heard()
        if run.is_terminal:
            return out + self._end(run)
        if run.waiting_on is not None and gate.open_actions(run):
            out += self._line(_waits(run.waiting_on))
        return out

    def _end(self, run: Run) -> str:
        if run.status is RunStatus.COMPLETED:
            return self._line("")
        code = run.error.code.value if run.error is not None else run.status.value
        why = str(run.error) if run.error is not None else f"The Run was {run.status.value}."
        if run.cancel is not None and run.cancel.reason and run.error is None:
            why += f" {run.cancel.reason}"
        return self._line(f"error ({code}): {' '.join(visible(why).split())}")

    # What is written.

    def _say(self, piece: str) -> str:
        if not piece:
            return ""
        gap = self._written("\n\n"[self._newlines() :]) if self._is_said else ""
        self._is_said = False
        self._heard.add(piece)
        return gap + self._written(visible(piece))

    def _taken_back(self) -> str:
        if not self._heard.chars:
            return ""
        self._heard = Heard()
        return self._line(TAKEN_BACK)

    def _line(self, text: str) -> str:
        """Return a line of its own; only what ends the one before when there is no text."""
        begin = "" if self._newlines() else "\n"
        return self._written(begin + " ".join(visible(text).split()) + ("\n" if text else ""))

    def _newlines(self) -> int:
        return len(self._ended_with) - len(self._ended_with.rstrip("\n"))

    def _written(self, text: str) -> str:
        self._ended_with = (self._ended_with + text)[-2:]
        return text


def _waits(waiting_on: WaitingOn) -> str:
    detail = f": {waiting_on.detail}" if waiting_on.detail else ""
    return f"[waits for a person ({waiting_on.type}){detail}]"
