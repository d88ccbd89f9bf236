"""`AgUi`: what one follower of a Run gets, as AG-UI events.

The follower's Run is folded along, because a snapshot of the messages has to say what is true at
this very place of the stream.
"""

from collections.abc import Sequence

from perdure.gateway.streaming.ag_ui.drafts import Draft
from perdure.gateway.streaming.ag_ui.endings import OURS, ending, interrupts, is_asking
from perdure.gateway.streaming.ag_ui.messages import (
    called,
    message_id,
    result_event,
    said_id,
    snapshot,
)
from perdure.gateway.streaming.ag_ui.wire import Json, custom, event
from perdure.runs.deltas import (
    ArgumentsDelta,
    DeltaBase,
    LiveEvent,
    OutputTextDelta,
    ReasoningDelta,
    Reset,
    StepRetrying,
    ToolProgressed,
)
from perdure.runs.events import (
    EndBase,
    Event,
    MessageAccepted,
    RunQueued,
    RunResumed,
    RunStarted,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.steps import Step

PROTOCOL_VERSION = "1.0"


class AgUi:
    """Encodes for one follower. Give it `opening` first, then each item that follows.

    An AG-UI run begins when a worker has begun the Run. It ends where the Run ends and where
    nothing goes on until people decide: with the outcome `interrupt`. When they have, another
    AG-UI run begins, in this stream or in one of its own.

    Args:
        run: As it stands where the stream begins: what is encoded follows its `last_event`. None
            when that is the Run's first Event. Deltas of a Step that runs are taken from their
            beginning, whatever the follower had of them before.
        thread_id: What the client calls the conversation; our Session, else the Run, when none.
        run_id: What the client calls this run; ours when none.
        before: The messages that the client has sent, its input among them. They are repeated in
            snapshots, because clients drop what a snapshot leaves out.
    """

    def __init__(
        self,
        run: Run | None = None,
        *,
        thread_id: str | None = None,
        run_id: str | None = None,
        before: Sequence[Json] | None = None,
    ) -> None:
        self._run = run
        self._thread_id = thread_id
        self._run_id = run_id
        self._before = before
        self._draft: Draft | None = None
        self._steps: dict[int, str] = {}
        self._is_open = False
        self.is_over = False
        """True while the last event sent was the end of an AG-UI run."""

    def opening(self) -> list[Json]:
        """Return the events with which the stream begins; none where the Run has not begun."""
        run = self._run
        if run is None or run.status is RunStatus.PENDING:
            return []
        return [self._started(run), *self._standing(run)]

    def encode(self, item: LiveEvent) -> list[Json]:
        """Return the next item of the follower as events.

        Raises:
            IllegalEvent: When Events are missing before it.
        """
        if isinstance(item, Reset):
            return self._reset(item)
        if isinstance(item, DeltaBase):
            return self._delta(item)
        if self._run is not None and item.sequence_number <= self._run.last_event:
            return []
        stamp = int(item.at.timestamp() * 1000)
        return [{"type": "", "timestamp": stamp} | each for each in self._event(item)]

    # What happens.

    def _event(self, item: Event) -> list[Json]:
        before = self._run
        after = self._run = Run.begin(item) if before is None else before.apply(item)
        if before is None or after.status is RunStatus.PENDING:
            return []
        out: list[Json] = []
        if not self._is_open:
            if is_asking(before) and is_asking(after):
                return []  # one of several decisions; a snapshot has it when the last has come
            begun = after if before.status is RunStatus.PENDING else before
            out.append(self._started(begun))
            if self._before is None or begun.steps:
                out.append(snapshot(begun, self._before))
        out += self._changes(item, before, after)
        if is_asking(after):
            out += self._interrupted(after)
        return out

    def _changes(self, item: Event, before: Run, after: Run) -> list[Json]:
        match item:
            case RunQueued() | RunStarted():
                return []
            case StepStarted():
                return [*self._results(before, after), *self._step(after.steps[item.step - 1])]
            case StepCompleted() | StepFailed():
                out = self._ended_step(before, after, item.step)
                return [*out, *self._finish([item.step])]
            case MessageAccepted():
                return self._said(after)
            case EndBase():
                return self._ended(item, before, after)
            case RunResumed():
                return [*self._snapshot(), custom(item)]
            case _:
                return [*self._results(before, after), custom(item)]

    def _ended_step(self, before: Run, after: Run, number: int) -> list[Json]:
        step = after.steps[number - 1]
        if step.kind != "model" or step.purpose == "compact":
            return self._results(before, after)
        draft = self._draft or self._new_draft(number, step.attempt)
        if draft.is_empty:
            draft = self._new_draft(number, step.attempt)
        told = draft.end(after)
        if told is None:
            return self._snapshot()
        self._draft = None
        return [*told, *self._results(before, after)]

    def _said(self, run: Run) -> list[Json]:
        id = said_id(run, len(run.follow_ups) - 1)
        return [
            event("TEXT_MESSAGE_START", messageId=id, role="user"),
            event("TEXT_MESSAGE_CONTENT", messageId=id, delta=run.follow_ups[-1].text),
            event("TEXT_MESSAGE_END", messageId=id),
        ]

    def _ended(self, item: EndBase, before: Run, after: Run) -> list[Json]:
        out = self._withdrawn() or self._results(before, after)
        out += self._finish(list(self._steps))
        if item.run is None:
            return out  # it was gone on with: that end was none
        return [*out, self._close(ending(after, self._ids(after)))]

    def _results(self, before: Run, after: Run) -> list[Json]:
        """Return the results of the calls that were settled; all messages where one changed."""
        if after.tool_calls is before.tool_calls:
            return []
        out: list[Json] = []
        for number, (id, call) in enumerate(called(after)):
            was = before.tool_calls[number] if number < len(before.tool_calls) else None
            if was is not None and was.is_settled and was.result != call.result:
                return self._snapshot()
            if call.is_settled and (was is None or not was.is_settled):
                out.append(result_event(id, call))
        return out

    # What is said meanwhile.

    def _delta(self, item: DeltaBase) -> list[Json]:
        step = self._running(item.step)
        if step is None or not self._is_open or step.purpose == "compact":
            return []
        if isinstance(item, ToolProgressed):
            return [custom(item)]
        out = self._begin_anew(item) if step.kind == "model" else []
        if isinstance(item, StepRetrying):
            return [*out, custom(item)]
        if not isinstance(item, OutputTextDelta | ReasoningDelta | ArgumentsDelta):
            return out
        if self._draft is None or self._draft.attempt != item.attempt:
            return out  # of an attempt that is void
        return [*out, *self._draft.take(item)]

    def _begin_anew(self, item: DeltaBase) -> list[Json]:
        """Take back what an earlier attempt has said, if this is of a later one."""
        draft = self._draft
        if draft is not None and draft.step == item.step and draft.attempt >= item.attempt:
            return []
        out = self._withdrawn()
        self._draft = self._new_draft(item.step, item.attempt)
        return out

    def _running(self, number: int) -> Step | None:
        run = self._run
        if run is None or not 1 <= number <= len(run.steps):
            return None
        step = run.steps[number - 1]
        return step if step.status == "running" else None

    def _new_draft(self, step: int, attempt: int) -> Draft:
        run_id = self._run.run_id if self._run is not None else ""
        return Draft(message_id(run_id, step, attempt), step, attempt)

    def _withdrawn(self) -> list[Json]:
        """Return a snapshot without what was said of the Step that runs, where anything was."""
        return [] if self._draft is None or self._draft.is_empty else self._snapshot()

    # The whole of it.

    def _reset(self, item: Reset) -> list[Json]:
        self._run, run = item.run, item.run
        if not self._is_open:
            return [] if self.is_over and is_asking(run) else self.opening()
        out = self._finish(list(self._steps))
        if run.status is RunStatus.PENDING:
            return out
        return [*out, *self._standing(run)]

    def _standing(self, run: Run) -> list[Json]:
        """Return a Run as it stands: what was said, what runs, how it ended."""
        out = self._snapshot()
        for step in run.steps:
            if step.status == "running":
                out += self._step(step)
        if run.is_terminal:
            out.append(self._close(ending(run, self._ids(run))))
        elif is_asking(run):
            out += self._interrupted(run)
        return out

    def _snapshot(self) -> list[Json]:
        """Return all messages; a draft is none of them, and is closed."""
        if self._run is None:
            return []
        draft, self._draft = self._draft, None
        out = [] if draft is None else draft.close()
        void = () if draft is None else draft.reasoning
        return [*out, snapshot(self._run, self._before, void)]

    # Where an AG-UI run, and a step of it, begin and end.

    def _ids(self, run: Run) -> Json:
        thread = self._thread_id or run.session_id or run.run_id
        return {"threadId": thread, "runId": self._run_id or run.run_id}

    def _started(self, run: Run) -> Json:
        self._is_open, self.is_over = True, False
        ours = {"run_id": run.run_id, "session_id": run.session_id, "agent": run.agent}
        return event(
            "RUN_STARTED",
            **self._ids(run),
            protocolVersion=PROTOCOL_VERSION,
            parentRunId=run.parent_run_id,
            metadata={OURS: ours},
        )

    def _interrupted(self, run: Run) -> list[Json]:
        outcome = {"type": "interrupt", "interrupts": interrupts(run)}
        last = event("RUN_FINISHED", **self._ids(run), outcome=outcome)
        # Before it says what it waits for, a run says all that is needed to go on.
        return [*self._finish(list(self._steps)), *self._snapshot(), self._close(last)]

    def _close(self, last: Json) -> Json:
        self._is_open, self.is_over = False, True
        return last

    def _step(self, step: Step) -> list[Json]:
        if step.purpose == "compact":
            return []
        name = self._steps[step.number] = f"{step.number} {step.name}"
        child = {OURS: {"child_run_id": step.child_run_id}} if step.child_run_id else None
        return [event("STEP_STARTED", stepName=name, metadata=child)]

    def _finish(self, steps: Sequence[int]) -> list[Json]:
        names = [self._steps.pop(number) for number in steps if number in self._steps]
        return [event("STEP_FINISHED", stepName=name) for name in names]
