"""What a Run is as AG-UI; `Reader` checks every event by the official types, and the order."""

import pytest

from perdure.gateway.streaming.ag_ui import AgUi, frames
from perdure.gateway.streaming.ag_ui.endings import interrupts
from perdure.gateway.streaming.ag_ui.wire import Json
from perdure.runs import gate
from perdure.runs.actions import Resolution
from perdure.runs.deltas import (
    ArgumentsDelta,
    LiveEvent,
    OutputTextDelta,
    Position,
    ReasoningDelta,
    StepRetrying,
)
from perdure.runs.errors import ErrorCode, error
from perdure.runs.events import RunCancelled
from perdure.runs.limits import Timeouts
from perdure.runs.policy import Approval
from perdure.runs.start import RunStart
from perdure.runs.status import StopReason
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from tests.gateway.ag_ui_reader import Reader
from tests.gateway.live import encoded
from tests.runs.building import at
from tests.runs.simulation import Simulation

CALL = RequestedCall(call_id="c", name="look", arguments='{"at": 1}')


@pytest.fixture
def asked() -> Simulation:
    """A Run whose model is being asked."""
    start = RunStart(agent="helper", input="Go.", timeouts=Timeouts(run_s=60))
    simulation = Simulation(start)
    simulation.start()
    simulation.go_on()
    return simulation


def text(delta: str, offset: int = 0, attempt: int = 1) -> OutputTextDelta:
    about = {"run_id": "r1", "after": 2, "step": 1, "attempt": attempt}
    return OutputTextDelta(**about, offset=offset, delta=delta)


def follower(simulation: Simulation) -> tuple[AgUi, Reader]:
    encoder, reader = AgUi(), Reader()
    reader.read(encoded(encoder, simulation.events))
    reader.kinds.clear()
    return encoder, reader


def ends(encoder: AgUi, simulation: Simulation, outcome: object) -> list[Json]:
    """End the model Step, and return what the follower is told."""
    seen = len(simulation.events)
    simulation.model_ends(outcome)  # type: ignore[arg-type]
    return encoded(encoder, simulation.events[seen:])


def test_what_was_streamed_is_not_sent_again_and_the_rest_is(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("Hel")))
    reader.read(ends(encoder, asked, ModelReply(model="m", text="Hello.", calls=(CALL,))))
    assert reader.kinds == [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_END",
        "STEP_FINISHED",
    ]
    assert reader.messages["r1:1.1"]["content"] == "Hello."


def test_reasoning_text_and_arguments_stream_side_by_side(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    about = {"run_id": "r1", "after": 2, "step": 1, "attempt": 1}
    reader.read(encoder.encode(ReasoningDelta(**about, offset=0, delta="Hm.")))
    reader.read(encoder.encode(text("I look.", 3)))
    for offset, piece in ((10, '{"at"'), (15, ": 1}")):
        delta = ArgumentsDelta(**about, offset=offset, delta=piece, call=0, name="look")
        reader.read(encoder.encode(delta))
    streamed = dict(reader.messages)
    reply = ModelReply(model="m", text="I look.", calls=(CALL,), extra={"reasoning_content": "Hm."})
    told_at_end = ends(encoder, asked, reply)
    kinds = [event["type"] for event in told_at_end]
    assert kinds == ["TEXT_MESSAGE_END", "TOOL_CALL_END", "STEP_FINISHED"]
    reader.read(told_at_end)
    assert reader.messages == streamed
    assert reader.messages["r1:1.1:reasoning.1"]["content"] == "Hm."
    function = {"name": "look", "arguments": '{"at": 1}'}
    call = {"id": "r1:1.1:call.0", "type": "function", "function": function}
    assert reader.messages["r1:1.1"]["toolCalls"] == [call]


def test_a_new_attempt_takes_back_what_was_shown(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    thought = {"run_id": "r1", "after": 2, "step": 1, "attempt": 1, "offset": 0, "delta": "Hm."}
    reader.read(encoder.encode(ReasoningDelta(**thought)))
    reader.read(encoder.encode(text("Wrong", 3)))
    again = StepRetrying(run_id="r1", after=2, step=1, attempt=2, reason="It was cut.")
    reader.read(encoder.encode(again))
    assert reader.shown("assistant") == {}
    assert reader.messages["r1:1.1:reasoning.1"]["content"] == ""
    assert encoder.encode(text("late")) == []
    reader.read(encoder.encode(text("Right", attempt=2)))
    reader.read(ends(encoder, asked, ModelReply(model="m", text="Right.", attempt=2)))
    assert reader.messages["r1:1.2"]["content"] == "Right."


def test_where_the_draft_was_wrong_the_durable_text_is_shown(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("My key is sk-1")))
    reader.read(ends(encoder, asked, ModelReply(model="m", text="My key is a secret.")))
    assert reader.messages["r1:1.1"]["content"] == "My key is a secret."
    assert "MESSAGES_SNAPSHOT" in reader.kinds


def test_of_an_attempt_that_nobody_has_heard_of_all_is_sent(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("Hel")))
    reader.read(ends(encoder, asked, ModelReply(model="m", text="Hello.", attempt=2)))
    assert {id: m["content"] for id, m in reader.shown("assistant").items()} == {"r1:1.2": "Hello."}


def test_what_a_failed_attempt_said_is_taken_back_when_nothing_is_kept(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("I am")))
    reader.read(ends(encoder, asked, error(ErrorCode.STREAM_INCOMPLETE)))
    assert reader.shown("assistant") == {}


def test_a_compaction_is_not_shown() -> None:
    simulation = Simulation(RunStart(agent="helper", input="Go."))
    simulation.start()
    simulation.go_on()
    started = simulation.events[-1].model_copy(update={"purpose": "compact"})
    items: list[LiveEvent] = [*simulation.events[:-1], started, text("Summary")]
    kinds = [event["type"] for event in encoded(AgUi(), items)]
    assert kinds == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]


@pytest.mark.parametrize(
    ("stop", "code"), [("now", "cancelled"), ("deadline", "timeout")], ids=["person", "time"]
)
def test_a_run_that_is_stopped_ends_with_an_error(asked: Simulation, stop: str, code: str) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("I am")))
    seen = len(asked.events)
    asked.stop(stop)
    asked.model_ends(
        ModelReply(model="m", text="I am", incomplete=True, error=error(ErrorCode.CANCELLED))
    )
    asked.go_on()
    *rest, last = asked.events[seen:]
    reader.read(encoded(encoder, rest))
    reader.read(encoder.encode(last.model_copy(update={"run": asked.run})))
    assert (reader.last["type"], reader.last["code"]) == ("RUN_ERROR", code)
    assert encoder.is_over
    assert reader.messages["r1:1.1"]["content"] == "I am"


def test_what_people_are_asked_can_be_shown_and_answered(asked: Simulation) -> None:
    policy = CALL.policy.model_copy(update={"kind": "question"})
    arguments = '{"question": "Which?", "choices": ["red", "blue"]}'
    question = CALL.model_copy(update={"policy": policy, "arguments": arguments})
    asked.model_ends(ModelReply(model="m", calls=(question,)))
    asked.go_on()
    (interrupt,) = interrupts(asked.run)
    assert interrupt["id"] == "r1/action_1"
    assert interrupt["reason"] == "input_required"
    assert interrupt["message"] == "Which?"
    assert interrupt["toolCallId"] == "r1:1.1:call.0"
    choices = interrupt["responseSchema"]["properties"]["answer"]
    assert choices == {"type": "string", "enum": ["red", "blue"]}
    encoder = AgUi(asked.run, thread_id="t", run_id="mine")
    *_, last = encoder.opening()
    assert last["outcome"] == {"type": "interrupt", "interrupts": [interrupt]}
    assert (last["threadId"], last["runId"]) == ("t", "mine")
    assert encoder.is_over


def test_a_run_goes_on_when_the_last_decision_has_come(asked: Simulation) -> None:
    policy = CALL.policy.model_copy(update={"approval": Approval()})
    two = [CALL.model_copy(update={"call_id": id, "policy": policy}) for id in ("a", "b")]
    asked.model_ends(ModelReply(model="m", calls=tuple(two)))
    asked.go_on()
    encoder, reader = follower(asked)
    first, second = gate.open_actions(asked.run)
    no = Resolution(verdict="rejected", by="ann")
    seen = len(asked.events)
    asked.resolve(first, no)
    assert encoded(encoder, asked.events[seen:]) == []
    seen = len(asked.events)
    asked.resolve(second, no)
    reader.read(encoded(encoder, asked.events[seen:]))
    assert reader.kinds[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert reader.shown("tool").keys() == {"r1:1.1:call.0:result", "r1:1.1:call.1:result"}


def test_what_a_person_says_of_an_outcome_is_part_of_the_result(asked: Simulation) -> None:
    asked.run = asked.run.model_copy(update={"on_unknown": "ask"})
    policy = CALL.policy.model_copy(update={"effect": "unsafe"})
    asked.model_ends(ModelReply(model="m", calls=(CALL.model_copy(update={"policy": policy}),)))
    asked.go_on()
    asked.tool_ends(asked.in_flight[0], error(ErrorCode.OUTCOME_UNKNOWN))
    asked.go_on()
    encoder, reader = AgUi(asked.run), Reader()
    reader.read(encoder.opening())
    seen = len(asked.events)
    (action,) = gate.open_actions(asked.run)
    asked.resolve(action, Resolution(verdict="answered", by="ann", answer="It was paid."))
    reader.read(encoded(encoder, asked.events[seen:]))
    (result,) = reader.shown("tool").values()
    assert "It was paid." in result["content"]


def test_what_is_done_again_in_a_resumed_run_takes_the_place_of_how_it_had_ended(
    asked: Simulation,
) -> None:
    policy = CALL.policy.model_copy(update={"effect": "read"})
    asked.model_ends(ModelReply(model="m", calls=(CALL.model_copy(update={"policy": policy}),)))
    asked.go_on()
    asked.stop("now")
    asked.tool_ends(asked.in_flight[0], error(ErrorCode.CANCELLED))
    asked.go_on()
    asked.resume()
    asked.go_on()
    asked.tool_ends(asked.in_flight[0], ToolReply(text="seen"))
    _, reader = follower(asked)
    (result,) = reader.shown("tool").values()
    assert result["content"] == "seen"


def test_a_run_that_was_terminated_leaves_nothing_open(asked: Simulation) -> None:
    encoder, reader = follower(asked)
    reader.read(encoder.encode(text("I am")))
    why = error(ErrorCode.TERMINATED)
    end = RunCancelled(**asked.run.stamp(at(9)), stop_reason=StopReason.TERMINATED, error=why)
    reader.read(encoder.encode(end.model_copy(update={"run": asked.run.apply(end)})))
    assert (reader.last["type"], reader.last["code"]) == ("RUN_ERROR", "cancelled")
    assert reader.shown("assistant") == {}  # nobody has kept what it said


def test_frames_say_where_the_follower_is_when_it_has_all_of_an_item() -> None:
    sent = frames([{"type": "CUSTOM", "name": "ä\n", "value": None}] * 2, Position(3, 1, 2, 5))
    data = 'data: {"type": "CUSTOM", "name": "ä\\n", "value": null}\n\n'
    assert sent.decode() == f"{data}id: 3:1.2.5\n{data}"
    assert frames([], Position(3)) == b""
