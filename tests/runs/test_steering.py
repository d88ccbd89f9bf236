"""What people say to a Run that goes on, and its pauses: what is taken, and what follows."""

import pytest

from perdure.runs import record, steering
from perdure.runs.contract import MessageRequest, PauseRequest, Resumption
from perdure.runs.decide import CallModel, Finish, Pause, decide
from perdure.runs.errors import ErrorCode, PerdureError, error
from perdure.runs.fork import checkpoint
from perdure.runs.limits import MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_TRANSCRIPT_BYTES, Limits
from perdure.runs.messages import UserMessage
from perdure.runs.requests import model_request
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import ToolReply
from perdure.runs.transcript import messages
from tests.runs.building import (
    answered,
    asking,
    at,
    ended_step,
    executed,
    moves,
    pending,
    reply,
    running,
    wanted,
)


def told(run: Run, text: str = "Stop!", message_id: str = "") -> Run:
    """Return the Run after a message."""
    chosen = message_id or f"m{len(run.follow_ups)}"
    event = steering.message_accepted(run, at(5), MessageRequest(text=text, message_id=chosen))
    assert event is not None
    return run.apply(event)


def paused(run: Run, reason: str = "") -> Run:
    """Return the Run after somebody paused it."""
    event = steering.pause_requested(run, at(5), PauseRequest(reason=reason))
    assert event is not None
    return run.apply(event)


def unpaused(run: Run) -> Run:
    """Return the Run after somebody let it go on."""
    event = steering.unpause_requested(run, at(6))
    assert event is not None
    return run.apply(event)


def stopping(run: Run) -> Run:
    """Return the Run after somebody cancelled it."""
    event = record.cancel_requested(run, at(6), "Enough.")
    assert event is not None
    return run.apply(event)


def resumed(run: Run) -> Run:
    """Return the Run after its end, and after somebody resumed it."""
    finish = decide(run)
    assert isinstance(finish, Finish)
    run = run.apply(record.ended(run, at(6), finish))
    return run.apply(record.resumed(run, at(7), Resumption(first_execution="e1")))


def concluding(run: Run) -> Run:
    """Return the Run while the model is asked to conclude."""
    call = CallModel(1, "conclude", limit=error(ErrorCode.MAX_TURNS))
    return run.apply(record.model_step_started(run, at(5), call))


def said(run: Run) -> list[str]:
    """Return what the user says in the transcript."""
    return [each.content for each in messages(run) if isinstance(each, UserMessage)]


ALIKE = MessageRequest(text="Stop!", message_id="m0")
OTHER = MessageRequest(text="Go!", message_id="m0")
ENDED = {
    status: running().apply(event)
    for status, event in moves(running()).items()
    if status in ("completed", "failed", "cancelled", "timeout")
}
REFUSED = [
    (running(), MessageRequest(text=" \n", message_id="a"), "invalid_request", "empty"),
    (running(), MessageRequest(text="Hi.", message_id="a b"), "invalid_request", "can't name"),
    (running(), MessageRequest(text="Hi.", message_id=""), "invalid_request", "can't name"),
    (
        running(),
        MessageRequest(text="é" * (MAX_MESSAGE_BYTES // 2 + 1), message_id="a"),
        "payload_too_large",
        "262,146 bytes",
    ),
    (
        running("x" * (MAX_TRANSCRIPT_BYTES - 1)),
        MessageRequest(text="Hi.", message_id="a"),
        "payload_too_large",
        "characters",
    ),
    (told(running()), OTHER, "invalid_request", "another message 'm0'"),
    (stopping(running()), ALIKE, "run_already_terminal", "being stopped"),
    (concluding(running()), ALIKE, "run_already_terminal", "concludes"),
    *[(run, ALIKE, "run_already_terminal", status) for status, run in ENDED.items()],
]


@pytest.mark.parametrize(("run", "request_", "code", "words"), REFUSED)
def test_a_message_that_can_not_be_taken_is_refused_with_the_way_out(
    run: Run, request_: MessageRequest, code: str, words: str
) -> None:
    with pytest.raises(PerdureError, match=words) as refused:
        steering.check_message(run, request_)
    assert refused.value.code == code
    assert refused.value.hint
    assert "resume" not in refused.value.hint or run.status is not RunStatus.COMPLETED


def test_there_is_an_end_of_messages() -> None:
    run = running()
    for _ in range(MAX_MESSAGES):
        run = told(run, "More.")
    request = MessageRequest(text="More.", message_id="one-more")
    with pytest.raises(PerdureError, match="1,000 messages"):
        steering.check_message(run, request)
    assert steering.message_accepted(run, at(9), request) is None


def test_a_message_that_comes_twice_is_heard_once_and_that_is_no_error() -> None:
    run = told(running())
    assert steering.check_message(run, ALIKE) is True
    assert steering.message_accepted(run, at(9), ALIKE) is None
    assert steering.check_message(run.apply(moves(run)["completed"]), ALIKE) is True
    assert steering.check_message(running(), ALIKE) is False


def test_a_message_before_the_first_call_is_in_it() -> None:
    run = told(pending())
    run = asking(run.apply(record.started(run, at(1))))
    assert said(run) == ["Go.", "Stop!"]
    assert model_request(run, CallModel(1)).messages == (
        UserMessage(content="Go."),
        UserMessage(content="Stop!"),
    )


def test_what_is_said_while_a_model_answers_comes_after_its_answer_and_results() -> None:
    run = told(asking(running()))
    assert said(run) == ["Go."]
    run = told(ended_step(run, 1, reply("Looking.", wanted("a"))), "Now!")
    run = executed(run, "a", ToolReply(text="1"))
    assert [each.role for each in messages(run)] == ["user", "assistant", "tool", "user", "user"]
    assert said(run) == ["Go.", "Stop!", "Now!"]


def test_a_final_answer_is_not_final_when_something_was_said_meanwhile() -> None:
    run = ended_step(told(asking(running())), 1, reply("Done."))
    assert decide(run) == CallModel(2)
    assert isinstance(decide(answered(run, reply("Stopped."))), Finish)


def test_what_is_said_while_a_model_fails_goes_to_the_model_fallen_back_to() -> None:
    run = ended_step(told(asking(running())), 1, error(ErrorCode.LLM_UNAVAILABLE, fallback="other"))
    assert decide(run) == CallModel(1, model="other")
    assert said(asking(run)) == ["Go.", "Stop!"]


def test_a_failure_ends_the_run_whatever_was_said_and_a_resumption_hears_it() -> None:
    run = resumed(ended_step(told(asking(running())), 1, error(ErrorCode.LLM_AUTH)))
    assert decide(run) == CallModel(1)
    assert said(asking(run)) == ["Go.", "Stop!"]


@pytest.mark.parametrize("on_limit", ["stop", "finalize", "pause"])
def test_a_message_does_not_lead_beyond_a_limit(on_limit: str) -> None:
    run = running(limits=Limits(max_turns=1), on_limit=on_limit)
    run = ended_step(told(asking(run)), 1, reply("Done."))
    after = decide(run)
    if isinstance(after, Pause):
        assert decide(told(run)) == after
    elif isinstance(after, CallModel):
        assert after.purpose == "conclude"
        run = run.apply(record.model_step_started(run, at(6), after))
        assert said(run) == ["Go.", "Stop!"]
        assert steering.message_accepted(run, at(7), OTHER) is None
        finish = decide(ended_step(run, 2, reply("So far.")))
        assert isinstance(finish, Finish)
        assert (finish.status, finish.stop_reason) == (RunStatus.COMPLETED, StopReason.MAX_TURNS)
    else:
        assert isinstance(after, Finish)
        assert after.stop_reason is StopReason.MAX_TURNS


def test_a_message_leads_out_of_a_circle_of_identical_calls() -> None:
    run = running(limits=Limits(max_identical_calls=2), on_limit="pause")
    for _ in range(2):
        run = executed(answered(run, reply(None, wanted("a"))), "a", ToolReply(text="1"))
    assert isinstance(decide(run), Pause)
    run = told(run, "Look elsewhere.")
    assert decide(run) == CallModel(3)
    run = executed(answered(run, reply(None, wanted("a"))), "a", ToolReply(text="1"))
    assert decide(run) == CallModel(4)
    run = executed(answered(run, reply(None, wanted("a"))), "a", ToolReply(text="1"))
    assert isinstance(decide(run), Pause)


def compact(run: Run, during: str | None = None) -> Run:
    """Return the Run with older messages summed up, something being said meanwhile."""
    call = CallModel(1, "compact")
    run = run.apply(record.model_step_started(run, at(6), call))
    asked = model_request(run, call).summarise
    run = told(run, during) if during else run
    assert model_request(run, call).summarise == asked
    return ended_step(run, len(run.steps), reply("A summary."))


def test_what_was_said_before_any_answer_survives_a_compaction_of_what_came_earlier() -> None:
    earlier = ContextBundle(messages=(UserMessage(content="Before."),))
    run = ended_step(told(asking(running(context=earlier)), "One."), 1, error(ErrorCode.CANCELLED))
    run = compact(run, "Two.")
    assert said(run)[1:] == ["One.", "Two."]
    run = told(answered(run, reply("Hm.")), "Three.")
    assert said(run)[1:] == ["One.", "Two.", "Three."]


def test_what_is_summed_up_is_not_said_again_and_what_is_said_meanwhile_is_kept() -> None:
    run = told(answered(told(running(), "One."), reply("A.", wanted("a"))), "Two.")
    run = executed(run, "a", ToolReply(text="1"))
    run = told(answered(run, reply("B.", wanted("a"))), "Three.")
    run = compact(executed(run, "a", ToolReply(text="1")), "Four. " * 999)
    assert run.compactions[0].up_to == 1
    assert said(run)[1:] == ["Three.", "Four. " * 999]


def test_a_paused_run_starts_nothing_and_does_not_end_until_it_is_let_go_on() -> None:
    run = answered(running(), reply(None, wanted("a")))
    for paused_at, on in ((run, decide(run)), (answered(running(), reply("Done.")), None)):
        held = paused(paused_at, "Let me see.")
        assert decide(held) == Pause(reason="Let me see.")
        assert record.paused(held, at(6)).waiting_on.type == "pause"
        assert decide(unpaused(held)) == (on or decide(paused_at))
    assert decide(stopping(paused(run))) == decide(stopping(run))


def test_pausing_and_unpausing_twice_is_doing_it_once() -> None:
    run = running()
    assert steering.check_pause(run) is False
    assert steering.check_unpause(run) is True
    assert steering.unpause_requested(run, at(5)) is None
    run = paused(run, "First.")
    assert steering.check_pause(run) is True
    assert steering.pause_requested(run, at(6), PauseRequest(reason="Second.")) is None
    assert steering.check_unpause(run) is False
    assert (run.pause_reason, unpaused(run).pause_reason) == ("First.", None)


@pytest.mark.parametrize("run", [*ENDED.values(), stopping(running())])
def test_a_run_that_ends_anyway_can_not_be_paused_or_let_go_on(run: Run) -> None:
    for check in (steering.check_pause, steering.check_unpause):
        with pytest.raises(PerdureError) as refused:
            check(run)
        assert refused.value.code == "run_already_terminal"
        assert refused.value.hint


def test_a_limit_waits_behind_a_pause() -> None:
    run = running(limits=Limits(max_turns=1), on_limit="pause")
    run = executed(answered(run, reply(None, wanted("a"))), "a", ToolReply(text="1"))
    at_limit = decide(run)
    run = run.apply(record.paused(run, at(5)))
    held = paused(run)
    assert decide(held) == Pause()
    record.check_limits(held, Limits(max_turns=2))
    raised = held.apply(record.limits_raised(held, at(6), Limits(max_turns=2)))
    assert decide(raised) == Pause()
    assert decide(unpaused(raised)) == CallModel(2)
    assert decide(unpaused(held)) == at_limit


def test_a_resumed_run_is_not_paused() -> None:
    run = resumed(stopping(paused(running())))
    assert run.pause_reason is None
    assert decide(run) == CallModel(1)


def test_calls_that_were_stopped_run_again_also_when_something_was_said_meanwhile() -> None:
    run = told(answered(running(), reply(None, wanted("a"))))
    run = resumed(stopping(run))
    assert run.tool_calls[0].status == "requested"


def test_a_fork_takes_over_what_was_said_at_its_step_unless_it_says_something_else() -> None:
    run = told(answered(told(running(), "One."), reply("Done.")), "Two.")
    assert [each.text for each in checkpoint(run, 1).follow_ups] == ["One.", "Two."]
    assert [each.text for each in checkpoint(run, 1, "Three.").follow_ups] == ["One.", "Three."]
    assert [each.text for each in checkpoint(run, 0).follow_ups] == ["One."]
