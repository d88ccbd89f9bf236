"""A Run without workers: takes decisions and folds made-up replies, in any order.

It does what the workflow does, minus the waiting; hypothesis chooses what comes back.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from perdure.client.continuing import Fork, forked_start
from perdure.runs import record
from perdure.runs.contract import Resumption
from perdure.runs.decide import CallModel, CallTools, Finish, Pause, decide
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.events import CancelRequested, ContextBundle, Event, RunStart
from perdure.runs.limits import Limits, Terms, Timeouts
from perdure.runs.messages import AssistantMessage, UserMessage, wire
from perdure.runs.requests import model_request
from perdure.runs.run import Run
from perdure.runs.steps import ModelReply, RequestedCall, Step, ToolReply
from perdure.runs.transcript import messages
from perdure.runs.usage import InputTokensDetails, ModelUsage, OutputTokensDetails
from tests.harness.transcript_rules import check_request
from tests.runs.building import at, with_mark

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
TOKENS = st.integers(0, 50)
WINDOWS = st.none() | st.integers(10, 400)
PLENTY = Limits(
    max_turns=99, max_tool_calls=999, max_identical_calls=99, max_tokens=99_999, max_cost=999
)
ODDS = st.sampled_from([True, True, True, False])
ENDED_MODEL_CODES = [
    ErrorCode.LLM_UNAVAILABLE,
    ErrorCode.STREAM_INCOMPLETE,
    ErrorCode.REFUSED,
    ErrorCode.CONTEXT_OVERFLOW,
    ErrorCode.MAX_OUTPUT,
    ErrorCode.CANCELLED,
]
ENDED_TOOL_CODES = [ErrorCode.TOOL_FAILED, ErrorCode.OUTCOME_UNKNOWN, ErrorCode.CANCELLED]


@st.composite
def starts(draw: DrawFn) -> RunStart:
    """Draw what a Run is started with; limits are low, so that they are met."""
    earlier = st.lists(st.tuples(TEXT, TEXT), max_size=2)
    context = [
        message
        for asked, told in draw(earlier)
        for message in (UserMessage(content=asked), AssistantMessage(content=told))
    ]
    low = st.none() | st.integers(1, 6)
    return RunStart(
        agent="helper",
        input=draw(TEXT),
        context=ContextBundle(messages=tuple(context), variables={"n": 1}),
        on_limit=draw(st.sampled_from([None, "stop", "finalize", "pause"])),
        limits=Limits(
            max_turns=draw(low),
            max_identical_calls=draw(st.none() | st.integers(1, 3)),
            max_tool_calls=draw(low),
            max_tokens=draw(st.none() | st.integers(50, 400)),
            max_cost=draw(st.none() | st.integers(1, 4)),
        ),
        timeouts=Timeouts(run_s=60),
    )


@st.composite
def usages(draw: DrawFn) -> ModelUsage:
    """Draw a call's usage; costs are quarters, whose sums are exact."""
    return ModelUsage(
        model=draw(st.sampled_from(["m", "n"])),
        input_tokens=draw(TOKENS),
        output_tokens=draw(TOKENS),
        input_tokens_details=InputTokensDetails(cached_tokens=draw(TOKENS)),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=draw(TOKENS)),
        model_calls=1,
        cost=draw(st.integers(0, 4)) / 4,
        unpriced_calls=draw(st.integers(0, 1)),
        complete=draw(st.booleans()),
    )


@st.composite
def calls(draw: DrawFn) -> tuple[RequestedCall, ...]:
    """Draw a turn's tool calls, often none: the ids are those of every other turn."""
    if not draw(ODDS):
        return ()
    refused = st.none() | st.just(error(ErrorCode.TOOL_ARGUMENTS_INVALID))
    return tuple(
        RequestedCall(
            call_id=f"c{number}",
            name="look",
            arguments='{"at": "ö"}',
            rejection=rejection,
            raw_arguments=None if rejection is None else "{at",
        )
        for number, rejection in enumerate(draw(st.lists(refused, min_size=1, max_size=4)))
    )


@st.composite
def model_outcomes(draw: DrawFn) -> ModelReply | RunError:
    """Draw what a model Step ends with: an answer, an unusable one, or an error."""
    if draw(st.integers(0, 9)) == 9:
        fallback = draw(st.sampled_from([None, "n"]))
        return error(draw(st.sampled_from(ENDED_MODEL_CODES)), fallback=fallback)
    why = draw(st.sampled_from(ENDED_MODEL_CODES)) if draw(st.integers(0, 9)) == 9 else None
    return ModelReply(
        model="m",
        text=draw(st.none() | TEXT),
        refusal=draw(st.sampled_from([None, None, None, "No."])),
        calls=() if why is not None else draw(calls()),
        finish_reason="stop",
        usage=draw(usages()),
        attempt=draw(st.integers(1, 3)),
        error=None if why is None else error(why),
        terms=draw(
            st.none()
            | st.builds(Terms, limits=st.just(Limits(max_turns=8)), context_window=WINDOWS)
        ),
    )


@st.composite
def tool_outcomes(draw: DrawFn) -> ToolReply | RunError:
    """Draw what a tool Step ends with: a result, one that tells of an error, or an error."""
    code = draw(st.sampled_from([None, None, *ENDED_TOOL_CODES]))
    if code is None:
        return ToolReply(text=draw(TEXT), attempt=draw(st.integers(1, 2)))
    why = error(code)
    return ToolReply(text="It failed.", error=why) if draw(st.booleans()) else why


class Simulation:
    """Drives one Run. `events` holds all that happened, `run` what came of it."""

    def __init__(self, start: RunStart) -> None:
        first = record.queued("r1", start, at(0))
        self.events: list[Event] = [first]
        self.run = Run.begin(first)

    def emit(self, event: Event) -> None:
        """Let an Event happen."""
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
                assert self.run.turn == decision.turn
            case CallTools():
                for call in decision.calls:
                    self.emit(record.tool_step_started(self.run, self.now, call.name, call.call_id))
            case Pause():
                if self.run.waiting_on is None:
                    self.emit(record.paused(self.run, self.now))
            case Finish():
                self.emit(record.ended(self.run, self.now, decision))

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
        event: CancelRequested | None
        if by == "deadline":
            event = record.deadline_passed(self.run, self.now)
        else:
            event = record.cancel_requested(self.run, self.now, "Enough.", by)  # type: ignore[arg-type]
        if event is not None:
            self.emit(event)

    def raise_limits(self) -> None:
        """Let a person raise all limits, and the Run go on if it waited for that."""
        self.emit(record.limits_raised(self.run, self.now, PLENTY))
        if self.run.waiting_on is not None:
            self.emit(record.unpaused(self.run, self.now))

    def resume(self) -> None:
        """Let the Run go on that has ended without completing."""
        resumption = Resumption(first_execution="e1", limits=PLENTY)
        self.emit(record.resumed(self.run, self.now, resumption))


@st.composite
def simulations(draw: DrawFn) -> Simulation:
    """Draw a Run driven for up to 40 actions: usually to its end, sometimes left in the middle."""
    simulation = Simulation(draw(starts()))
    _drive(draw, simulation)
    if draw(st.integers(0, 3)) == 3:
        _fork(draw, simulation)
    return simulation


def _fork(draw: DrawFn, simulation: Simulation) -> None:
    """Begin anew from a Step of the Run, with a message or without, and drive that to its end."""
    run = simulation.run
    ended = [
        n for n in range(len(run.steps) + 1) if all(s.status != "running" for s in run.steps[:n])
    ]
    step, message = draw(st.sampled_from(ended)), draw(st.none() | TEXT)
    start = forked_start(run, Fork(step=step, message=message))
    simulation.__init__(start)  # type: ignore[misc]
    _drive(draw, simulation)


def _drive(draw: DrawFn, simulation: Simulation) -> None:
    stops_after = draw(st.none() | st.integers(0, 12))
    for action in range(draw(st.integers(30, 40)) if draw(ODDS) else draw(st.integers(0, 12))):
        if simulation.run.is_terminal:
            if simulation.run.status == "completed" or draw(st.booleans()):
                break
            simulation.resume()
        if action == stops_after:
            simulation.stop(draw(st.sampled_from(["now", "after_step", "rollback", "deadline"])))
        _act(draw, simulation)


def _act(draw: DrawFn, simulation: Simulation) -> None:
    """Do what can be done next; which of several tools ends first is drawn."""
    in_flight = simulation.in_flight
    if simulation.run.status == "pending":
        simulation.start()
    elif simulation.run.waiting_on is not None and simulation.run.cancel is None:
        simulation.raise_limits()
    elif not in_flight:
        simulation.go_on()
    elif in_flight[0].kind == "model":
        simulation.model_ends(draw(model_outcomes()))
    else:
        simulation.tool_ends(draw(st.sampled_from(in_flight)), draw(tool_outcomes()))


def folded(events: Sequence[Event], run: Run | None = None) -> Run:
    """Fold Events, from the first one or onto a Run."""
    for event in events:
        run = Run.begin(event) if run is None else run.apply(event)
    assert run is not None
    return run


def assert_transcript_is_valid(run: Run) -> None:
    """Check the messages of a Run by the rules that every provider's requests must obey."""
    assert check_request({"messages": [json.loads(wire(each)) for each in messages(run)]}) == []
