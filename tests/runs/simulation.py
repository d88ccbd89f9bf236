"""A Run without workers: takes decisions and folds made-up replies, in any order.

It does what the workflow does, minus the waiting; hypothesis chooses what comes back.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perdure.runs import gate, record, resolving, steering
from perdure.runs.actions import Action, Resolution
from perdure.runs.contract import (
    MessageRequest,
    ModelRequest,
    PauseRequest,
    ResolveActionRequest,
    Resumption,
)
from perdure.runs.decide import (
    Ask,
    AwaitPeople,
    CallModel,
    CallTools,
    Finish,
    HandOff,
    Pause,
    also_ready,
    decide,
)
from perdure.runs.errors import RunError
from perdure.runs.events import Event
from perdure.runs.files import FileRef
from perdure.runs.inputs import unchecked
from perdure.runs.limits import Limits
from perdure.runs.messages import wire
from perdure.runs.requests import child_request, model_request
from perdure.runs.run import Run
from perdure.runs.start import RunStart
from perdure.runs.steps import ModelReply, Step, ToolCall, ToolReply
from perdure.runs.transcript import messages, task
from tests.harness.transcript_rules import check_request
from tests.runs.building import at, with_mark

PLENTY = Limits(
    max_turns=99, max_tool_calls=999, max_identical_calls=99, max_tokens=99_999, max_cost=999
)


class Simulation:
    """Drives one Run. `events` holds all that happened, `run` what came of it."""

    def __init__(self, start: RunStart) -> None:
        first = record.queued("r1", start, at(0))
        self.events: list[Event] = [first]
        self.run = Run.begin(first)

    def emit(self, event: Event | None) -> None:
        """Let an Event happen, if there is one."""
        if event is not None:
            self.run = self.run.apply(event)
            self.events.append(event)

    @property
    def now(self) -> Any:
        """A clock that goes on by a second with every Event."""
        return at(len(self.events))

    @property
    def in_flight(self) -> list[Step]:
        """The Steps that run."""
        return [step for step in self.run.steps if step.status == "running"]

    @property
    def waits_for_people(self) -> bool:
        """True while people are to decide something, and the Run is not to stop."""
        return bool(gate.open_actions(self.run)) and self.run.cancel is None

    @property
    def is_paused(self) -> bool:
        """True while it waits for something else that only people do."""
        waiting = self.run.waiting_on
        return waiting is not None and waiting.type in ("pause", "limit")

    def start(self) -> None:
        """Let a worker pick the Run up."""
        self.emit(record.started(self.run, self.now))

    def go_on(self) -> None:
        """Take the next decision and do it."""
        decision = decide(self.run)
        match decision:
            case CallModel():
                decision = replace(decision, model=decision.model or self.run.model)
                self.emit(record.model_step_started(self.run, self.now, decision))
                assert_transcript_is_valid(self.run)
                request = model_request(self.run, decision)
                assert (request.summarise > 0) == (decision.purpose == "compact")
                assert_unchecked_stand_last(self.run, request)
                assert self.run.turn == decision.turn
            case CallTools():
                self.call_tools(decision.calls)
            case Ask():
                self.emit(record.action_required(self.run, self.now))
                assert self.run.waiting_on is not None
                assert self.run.waiting_on.type in ("approval", "input")
            case AwaitPeople():
                assert self.run.waiting_on is not None
                assert self.run.waiting_on.action_ids == decision.action_ids
            case HandOff():
                self.emit(record.handed_off(self.run, self.now))
            case Pause():
                self.emit(record.paused(self.run, self.now))
            case Finish():
                self.emit(record.ended(self.run, self.now, decision))

    def call_tools(self, calls: Sequence[ToolCall]) -> None:
        """Start the execution of calls: only of those that a person is not to decide about."""
        for call in calls:
            assert gate.is_let_through(call)
            yes = gate.approved(self.run.run_id, call)
            assert (yes is not None) == (call.policy.approval is not None)
            child_id = None
            if call.policy.kind == "agent":
                assert child_request(self.run, call).start is not None
                child_id = f"r1.{len(self.run.steps) + 1}"
            self.emit(
                record.tool_step_started(self.run, self.now, call.name, call.call_id, child_id)
            )

    def resolve(self, action: Action, resolution: Resolution) -> None:
        """Let a person decide, and let go on what waited for that."""
        request = ResolveActionRequest(
            action_id=action.action_id, digest=action.digest, resolution=resolution
        )
        if not resolving.check_resolution(self.run, request, at(0)):
            self.emit(resolving.action_resolved(self.run, self.now, request))
        assert resolving.check_resolution(self.run, request, at(0))
        if self.in_flight and self.in_flight[0].kind == "tool":
            self.call_tools(also_ready(self.run))

    def expire(self) -> None:
        """Let the wait for the action end that is to end first."""
        if gate.due(self.run) is not None:
            self.emit(record.action_expired(self.run, self.now))

    def model_ends(self, outcome: ModelReply | RunError) -> None:
        """End the model Step that runs."""
        (step,) = self.in_flight
        if isinstance(outcome, ModelReply) and step.purpose != "turn":
            outcome = outcome.model_copy(update={"calls": ()})
        if isinstance(outcome, ModelReply) and outcome.error is None:
            # Marked from what was sent along, as a worker does; not from the whole Run.
            outcome = with_mark(self.run, outcome)
        self.emit(record.step_ended(self.run, self.now, step.number, outcome))

    def tool_ends(self, step: Step, outcome: ToolReply | RunError) -> None:
        """End one of the tool Steps that run."""
        self.emit(record.step_ended(self.run, self.now, step.number, outcome))

    def stop(self, by: str) -> None:
        """Ask the Run to stop, as a user, at once or not, or because its time is up."""
        if by == "deadline":
            self.emit(record.deadline_passed(self.run, self.now))
        else:
            self.emit(record.cancel_requested(self.run, self.now, "Enough.", by))  # type: ignore[arg-type]

    def raise_limits(self) -> None:
        """Let a person raise all limits."""
        self.emit(record.limits_raised(self.run, self.now, PLENTY))
        self.wake()

    def say(self, message_id: str, text: str, files: tuple[FileRef, ...] = ()) -> None:
        """Let a person say something, if the Run takes it."""
        if self.run.cancel is None:
            said = MessageRequest(text=text, message_id=message_id, files=files)
            self.emit(steering.message_accepted(self.run, self.now, said))
            self.wake()

    def pause(self, reason: str) -> None:
        """Let a person pause the Run."""
        request = PauseRequest(reason=reason)
        self.emit(steering.pause_requested(self.run, self.now, request))
        self.wake()

    def unpause(self) -> None:
        """Let a person end that pause."""
        self.emit(steering.unpause_requested(self.run, self.now))
        self.wake()

    def wake(self) -> None:
        """Do what the workflow does that waits and is told something."""
        waiting = self.run.waiting_on
        if waiting is None or self.run.cancel is not None:
            return
        if waiting.type in ("approval", "input") and self.run.pause_reason is None:
            return
        if self.in_flight:
            return
        decision = decide(self.run)
        if not isinstance(decision, Pause):
            self.emit(record.unpaused(self.run, self.now))
        elif waiting.type != ("pause" if decision.limit is None else "limit"):
            self.emit(record.paused(self.run, self.now))

    def resume(self) -> None:
        """Let the Run go on that has ended without completing."""
        resumption = Resumption(first_execution="e1", limits=PLENTY)
        self.emit(record.resumed(self.run, self.now, resumption))


def folded(events: Sequence[Event], run: Run | None = None) -> Run:
    """Fold Events, from the first one or onto a Run."""
    for event in events:
        run = Run.begin(event) if run is None else run.apply(event)
    assert run is not None
    return run


def assert_unchecked_stand_last(run: Run, request: ModelRequest) -> None:
    """What an agent's checks are to look at are the last messages: the words that were said."""
    transcript = list(messages(run))
    found = unchecked(run)
    assert found.count == request.unchecked
    said = [task(run)] if found.input else []
    for each in (run.follow_ups[index] for index in found.follow_ups):
        assert each.told is None
        said.append(each.text)
    shown = transcript[len(transcript) - len(said) :]
    assert [(message.role, message.content) for message in shown] == [("user", t) for t in said]
    assert len(said) + request.summarise <= len(transcript)


def assert_transcript_is_valid(run: Run) -> None:
    """Check the messages of a Run by the rules that every provider's requests must obey."""
    assert check_request({"messages": [json.loads(wire(each)) for each in messages(run)]}) == []
