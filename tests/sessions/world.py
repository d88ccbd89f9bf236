"""A Session and its Runs without Temporal: what the workflows do, one small thing at a time.

Everything that takes time between them is a thing of its own here, so that a test can have it
happen late, in any order, or find the Run ended: the start of a Run's workflow, a signal, and
that an end is noticed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from perdure.runs import record, steering
from perdure.runs.contract import MessageRequest, Resumption
from perdure.runs.decide import Finish
from perdure.runs.errors import ErrorCode, error
from perdure.runs.events import CancelMode, StoppedBy
from perdure.runs.run import Run
from perdure.runs.start import RunStart, SessionShare
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from perdure.sessions.admission import Admission, StartRequest, admit
from perdure.sessions.outcome import RunOutcome, outcome
from perdure.sessions.session import Session
from tests.runs.building import START
from tests.runs.simulation import Simulation


class Acting(Simulation):
    """The workflow of one Run."""

    def __init__(self, world: "World", run_id: str, start: RunStart) -> None:
        self.world = world
        first = record.queued(run_id, start, world.now)
        self.events = [first]
        self.run = Run.begin(first)
        if not start.queued:
            self.start()

    @property
    def now(self) -> datetime:
        """The world's clock."""
        return self.world.now

    @property
    def is_urgent(self) -> bool:
        """True when what is in flight is to be aborted."""
        return self.run.cancel is not None and self.run.cancel.is_urgent

    def begin(self, share: SessionShare) -> None:
        """Hear the signal `begin`."""
        if self.run.status is RunStatus.PENDING:
            self.emit(record.started(self.run, self.now, share))

    def cancel(self, mode: CancelMode = "now", by: StoppedBy = "user") -> None:
        """Hear the signal `cancel`."""
        event = record.cancel_requested(self.run, self.now, "Enough.", mode, by)
        if event is not None:
            self.emit(event)

    def expire(self) -> None:
        """Have waited too long."""
        event = record.queue_expired(self.run, self.now)
        if event is not None:
            self.emit(event)

    def hear(self, text: str, message_id: str) -> None:
        """Hear the signal `message`."""
        request = MessageRequest(text=text, message_id=message_id)
        event = None
        if self.run.cancel is None:
            event = steering.message_accepted(self.run, self.now, request)
        if event is not None:
            self.emit(event)

    def terminate(self) -> None:
        """Be ended by an operator."""
        finish = Finish(RunStatus.CANCELLED, StopReason.TERMINATED)
        self.emit(record.ended(self.run, self.now, finish))

    def work(self, text: str = "", calls: int = 0, code: ErrorCode | None = None) -> None:
        """Do the next thing: take a decision, or have what is in flight end.

        Args:
            text: What the model says, or the tool returns.
            calls: Tools that the model asks for.
            code: With what the model's call fails.
        """
        if self.run.is_terminal or (self.run.status is RunStatus.PENDING and not self.run.cancel):
            return
        if not self.in_flight:
            self.go_on()
            return
        step, code = self.in_flight[0], ErrorCode.CANCELLED if self.is_urgent else code
        if step.kind == "tool":
            stopped = error(ErrorCode.OUTCOME_UNKNOWN)
            self.tool_ends(step, stopped if self.is_urgent else ToolReply(text=text))
            return
        wanted = tuple(
            RequestedCall(call_id=f"c{number}", name="look", arguments="{}")
            for number in range(0 if code else calls)
        )
        used = {"model": "m", "input_tokens": 5, "output_tokens": 1, "model_calls": 1}
        why = None if code is None else error(code)
        self.model_ends(ModelReply(model="m", text=text, calls=wanted, usage=used, error=why))

    def work_to_the_end(self, text: str = "Yes.") -> None:
        """Answer, and end."""
        while not self.run.is_terminal and (self.run.cancel or self.run.started_at):
            self.work(text)


@dataclass
class Signal:
    """Something on its way to a Run."""

    run_id: str
    hear: Callable[[Acting], None]
    name: str


@dataclass
class World:
    """The workflow of a Session, and all that it deals with."""

    session: Session
    now: datetime = START
    acting: dict[str, Acting] = field(default_factory=dict)
    starting: dict[str, Callable[[], Acting]] = field(default_factory=dict)
    then: dict[str, Callable[[], None]] = field(default_factory=dict)
    signals: list[Signal] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    """Runs in the order in which they had their turns."""

    @staticmethod
    def new(**settings: Any) -> "World":
        """Return a world with a new Session."""
        begins = {"session_id": "s1", "created_at": START, "last_active_at": START}
        return World(Session(**begins, settings=settings))

    def run(self, run_id: str) -> Run:
        """Return a Run."""
        return self.acting[run_id].run

    @property
    def open_runs(self) -> list[str]:
        """The Runs whose workflows have been started and have not ended."""
        return [r for r, acting in self.acting.items() if not acting.run.is_terminal]

    def passes(self, **time: float) -> None:
        """Let time pass."""
        self.now += timedelta(**time)

    # What the workflow of the Session does

    def ask(self, run_id: str, text: str, on_busy: str = "reject", key: str = "") -> Admission:
        """Ask for a Run, as the update `start_run`."""
        start = RunStart(agent="helper", input=text, session_id="s1")
        request = StartRequest(run_id=run_id, start=start, on_busy=on_busy, key=key, digest=text)
        self.session, admission = admit(self.session, request, self.now)
        if admission.how == "begun":
            self.begun.append(run_id)
            self.launch(run_id, start.model_copy(update={"share": self.session.share}))
        elif admission.how == "queued":
            self.launch(run_id, start.model_copy(update={"queued": True}))
            mode: CancelMode = "rollback" if on_busy == "rollback" else "now"
            told = [each for each in (admission.stop, *admission.superseded) if each is not None]
            self.then[run_id] = lambda: [self.stop(each, mode) for each in told] and None
        elif admission.how == "steered":
            hear = Signal(admission.run_id, lambda acting: acting.hear(text, run_id), "message")
            self.signals.append(hear)
        self.give_turn()
        return admission

    def start(self, run_id: str, text: str, on_busy: str = "reject", key: str = "") -> Admission:
        """Ask for a Run, and let everything follow from it that follows at once."""
        admission = self.ask(run_id, text, on_busy, key)
        self.catch_up()
        return admission

    def launch(self, run_id: str, start: RunStart) -> None:
        """Begin to start the workflow of a Run."""
        self.starting[run_id] = lambda: Acting(self, run_id, start)

    def launched(self, run_id: str) -> None:
        """Have the workflow of a Run started, or refused because there is one of its id."""
        begin, then = self.starting.pop(run_id), self.then.pop(run_id, None)
        if run_id in self.acting and not self.resumes(run_id):
            self.session = self.session.unknown(run_id)
        else:
            self.acting[run_id] = begin()
            if then is not None:
                then()
        self.give_turn()

    def resumes(self, run_id: str) -> bool:
        """Tell whether a Run that is being started is one that goes on."""
        active = self.session.active
        return active is not None and active.run_id == run_id and active.resumes is not None

    def stop(self, run_id: str, mode: CancelMode) -> None:
        """Send a cancel."""
        hear = Signal(run_id, lambda acting: acting.cancel(mode, "session"), "cancel")
        self.signals.append(hear)

    def resume(self, run_id: str) -> None:
        """Let the latest Run go on."""
        acting = self.acting[run_id]
        self.session = self.session.resuming(acting.run, self.now)
        resumption = Resumption(first_execution="e1", budget=self.session.budget)

        def again() -> Acting:
            acting.emit(record.resumed(acting.run, self.now, resumption))
            return acting

        self.starting[run_id] = again

    def close(self) -> None:
        """Delete the Session."""
        self.session = self.session.closed()
        for run_id in self.session.open_runs:
            self.stop(run_id, "now")

    def give_turn(self) -> None:
        """Let the next Run begin, as the workflow's loop does; it waits until that is told."""
        session = self.session
        waits = any(signal.name == "begin" for signal in self.signals)
        if waits or session.active is not None or session.closing or not session.turns:
            return
        run_id = session.turns[0]
        if run_id in self.starting:
            return
        late = next((each.start for each in session.queue if each.run_id == run_id), None)
        self.session = session.begun(run_id, self.now)
        self.begun.append(run_id)
        share = self.session.share
        if late is not None:
            self.launch(run_id, late.model_copy(update={"share": share}))
            return
        self.signals.append(Signal(run_id, lambda acting: acting.begin(share), "begin"))

    # What happens later

    def deliver(self, index: int = 0) -> None:
        """Have a signal arrive; one that has ended hears nothing."""
        signal = self.signals.pop(index)
        if signal.run_id in self.starting:
            self.signals.append(signal)
            return
        acting = self.acting[signal.run_id]
        if not acting.run.is_terminal:
            signal.hear(acting)
        self.give_turn()

    @property
    def unseen(self) -> list[str]:
        """Runs that have ended, and whose Session does not know yet."""
        known = set(self.session.open_runs) - set(self.starting)
        return [r for r, a in self.acting.items() if a.run.is_terminal and r in known]

    def notice(self, run_id: str) -> RunOutcome:
        """Have the Session see that a Run has ended."""
        left = outcome(self.run(run_id))
        self.session = self.session.ended(left, self.now)
        self.give_turn()
        return left

    @property
    def aborting(self) -> list[Acting]:
        """Runs that have been told to stop, and have not yet."""
        return [
            each for each in self.acting.values() if each.is_urgent and not each.run.is_terminal
        ]

    def catch_up(self) -> None:
        """Let everything arrive that is on its way, and Runs end that are told to."""
        while self.starting or self.signals or self.aborting or self.unseen:
            for run_id in list(self.starting):
                self.launched(run_id)
            for _ in list(self.signals):
                self.deliver()
            for acting in self.aborting:
                acting.work_to_the_end()
            for run_id in self.unseen:
                self.notice(run_id)

    def end(self, run_id: str, text: str = "Yes.") -> None:
        """Have a Run answer and end, and all that follows."""
        self.acting[run_id].work_to_the_end(text)
        self.catch_up()

    @property
    def said(self) -> list[str | None]:
        """The conversation, without who said what."""
        return [message.content for message in self.session.messages]
