"""What a Run leaves to its Session, by how it ended."""

from typing import Any

import pytest

from perdure.runs import record
from perdure.runs.decide import CallModel, decide
from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, FollowUp
from perdure.runs.transcript import SUMMARY
from perdure.runs.usage import Usage
from perdure.sessions.outcome import RunOutcome, outcome, said_by_end
from tests.runs.building import answered, asking, at, ended_step, pending, reply, running

BEFORE = ContextBundle(messages=(UserMessage(content="Hello."), AssistantMessage(content="Hi.")))


def ended(run: Run) -> Run:
    """Return the Run at the end that it comes to by itself."""
    return run.apply(record.ended(run, at(9), decide(run)))  # type: ignore[arg-type]


def cancelled(run: Run, mode: str = "now") -> Run:
    """Return the Run after a request to stop."""
    event = record.cancel_requested(run, at(5), "Enough.", mode)  # type: ignore[arg-type]
    assert event is not None
    return run.apply(event)


def said(run: Run) -> list[str | None]:
    """Return what a Run leaves, without who said it."""
    return [message.content for message in outcome(run).messages]


def test_it_leaves_what_was_said_and_not_what_was_said_before() -> None:
    run = ended(answered(running(context=BEFORE), reply("Done.")))
    assert outcome(run) == RunOutcome(
        run_id="r1",
        status="completed",
        messages=(UserMessage(content="Go."), AssistantMessage(content="Done.")),
        usage=run.usage,
    )
    assert [m.content for m in said_by_end(run)] == ["Hello.", "Hi.", "Go.", "Done."]


@pytest.mark.parametrize("purpose", ["turn", "conclude", "compact"])
@pytest.mark.parametrize("text", ["Once upon", "", None])
def test_what_a_model_was_saying_when_it_was_stopped_is_kept(
    purpose: Any, text: str | None
) -> None:
    run = running(context=BEFORE)
    run = run.apply(record.model_step_started(run, at(2), CallModel(1, purpose)))
    run = cancelled(run)
    stopped = reply(text, error=error(ErrorCode.CANCELLED))
    run = ended(ended_step(run, 1, stopped))
    kept = ["Go."] + ([text] if text and purpose != "compact" else [])
    assert said(run) == kept


def test_an_answer_that_could_not_be_used_is_kept_too() -> None:
    why = error(ErrorCode.STREAM_INCOMPLETE)
    run = ended(ended_step(asking(running()), 1, reply("Half an ans", error=why)))
    assert (run.status, said(run)) == ("failed", ["Go.", "Half an ans"])


def test_a_step_that_an_operator_ended_leaves_nothing_of_its_own() -> None:
    run = asking(running())
    end = record.broken(error(ErrorCode.TERMINATED))
    assert said(run.apply(record.ended(run, at(9), end))) == ["Go."]


@pytest.mark.parametrize("mode", ["now", "after_step", "rollback"])
@pytest.mark.parametrize("queued", [True, False])
def test_one_that_never_had_its_turn_leaves_nothing(mode: str, queued: bool) -> None:
    run = ended(cancelled(pending(queued=queued), mode))
    assert outcome(run) == RunOutcome(
        run_id="r1", status="cancelled", began=False, rolled_back=mode == "rollback"
    )


def test_it_says_that_it_is_to_be_forgotten() -> None:
    run = ended(cancelled(answered(running(), reply("Yes.")), "rollback"))
    assert outcome(run).rolled_back
    assert outcome(run).usage == run.usage != Usage()


def test_it_says_what_has_reached_it() -> None:
    follow_ups = [
        FollowUp(after_step=1, text="One.", message_id="m1"),
        FollowUp(after_step=1, text="Two.", message_id="m2"),
        FollowUp(after_step=1, text="By a fork.", message_id=""),
    ]
    run = answered(running(), reply("Yes."))
    run = run.model_copy(update={"follow_ups": tuple(follow_ups)})
    run = ended(answered(run, reply("And no.")))
    assert outcome(run).taken == ("m1", "m2")
    assert said(run) == ["Go.", "Yes.", "One.", "Two.", "By a fork.", "And no."]


def test_one_that_has_summed_up_replaces_the_conversation() -> None:
    run = running(context=BEFORE)
    run = run.apply(record.model_step_started(run, at(2), CallModel(1, "compact")))
    run = ended_step(run, 1, reply("They greeted."))
    run = ended(answered(run, reply("Done.")))
    assert outcome(run).replaces
    assert said(run) == [SUMMARY.format(summary="They greeted.", task="Go."), "Done."]
