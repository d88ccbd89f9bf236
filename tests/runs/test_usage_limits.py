"""Arithmetic of tokens and cost, and the limits that are checked against it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.runs.codes import UNKNOWN_USAGE
from perdure.runs.decide import CallModel, CallTools, Decision, Finish, decide
from perdure.runs.errors import ErrorCode, error
from perdure.runs.limits import DEFAULT_TERMS, Limits, Terms, Timeouts
from perdure.runs.run import Run
from perdure.runs.steps import ToolReply
from perdure.runs.usage import ModelUsage, Usage
from tests.runs.building import answered, asking, ended_step, executed, reply, running, wanted
from tests.runs.drawing import usages


def two_turns(limits: Limits) -> Run:
    """Return a Run after two turns of one tool call each: 24 tokens, 0.50 USD."""
    run = running(limits=limits)
    for call_id in ("a", "b"):
        run = executed(answered(run, reply(None, wanted(call_id))), call_id, ToolReply(text="1"))
    return run


def code_of(decision: Decision) -> ErrorCode | None:
    """Return the code of the error that ends a Run, if one does."""
    return decision.error.code if isinstance(decision, Finish) and decision.error else None


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_turns=2), ErrorCode.MAX_TURNS),
        (Limits(max_turns=3), None),
        (Limits(max_tokens=24), ErrorCode.MAX_TOKENS),
        (Limits(max_tokens=25), None),
        (Limits(max_cost=0.5), ErrorCode.MAX_COST),
        (Limits(max_cost=0.51), None),
        (Limits(max_tool_calls=2), None),
        (Limits(), None),
    ],
)
def test_a_limit_ends_the_run_when_it_is_reached_and_not_before(
    limits: Limits, code: ErrorCode | None
) -> None:
    decision = decide(two_turns(limits))
    assert code_of(decision) == code
    if code is None:
        assert decision == CallModel(turn=3)
    else:
        assert isinstance(decision, Finish)
        assert decision.stop_reason == code.value


def test_all_calls_of_a_turn_fit_the_limit_or_none_is_executed() -> None:
    run = two_turns(Limits(max_tool_calls=3))
    assert isinstance(decide(answered(run, reply(None, wanted("c")))), CallTools)
    decision = decide(answered(run, reply(None, wanted("c"), wanted("d"))))
    assert code_of(decision) is ErrorCode.MAX_TOOL_CALLS


def test_a_final_answer_counts_though_a_limit_is_passed_with_it() -> None:
    decision = decide(answered(two_turns(Limits(max_tokens=30)), reply("Done.")))
    assert isinstance(decision, Finish)
    assert (decision.status, decision.output) == ("completed", "Done.")


def test_a_limit_keeps_what_was_used_so_far() -> None:
    """Nothing of a Run that meets a limit is thrown away (HTTP-15)."""
    run = two_turns(Limits(max_turns=2))
    assert (run.usage.model_calls, run.usage.tool_calls, run.total_tokens) == (2, 2, 24)
    assert run.total_cost == 0.5


def test_own_limits_win_over_lower_ones_and_gaps_are_filled() -> None:
    assert Limits(max_turns=5).over(Limits(max_turns=9, max_tokens=7)) == Limits(
        max_turns=5, max_tokens=7
    )
    assert Terms().over(DEFAULT_TERMS) == DEFAULT_TERMS
    slow = Terms(timeouts=Timeouts(model_s=1)).over(DEFAULT_TERMS).timeouts
    assert slow == DEFAULT_TERMS.timeouts.model_copy(update={"model_s": 1})


@pytest.mark.parametrize("field", list(Limits.model_fields))
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_must_be_positive_and_finite(field: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate({field: value})


@pytest.mark.parametrize("field", list(Timeouts.model_fields))
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_timeout_must_be_positive_and_finite(field: str, value: float) -> None:
    with pytest.raises(ValidationError):
        Timeouts.model_validate({field: value})


@given(st.lists(usages(), max_size=8))
def test_totals_are_the_sum_of_the_calls_and_of_the_models(calls: list[ModelUsage]) -> None:
    total = Usage()
    for call in calls:
        total = total.plus_call(call)
    assert total.total_tokens == sum(c.input_tokens + c.output_tokens for c in calls)
    assert total.input_tokens_details.cached_tokens == sum(
        c.input_tokens_details.cached_tokens for c in calls
    )
    assert total.output_tokens_details.reasoning_tokens == sum(
        c.output_tokens_details.reasoning_tokens for c in calls
    )
    assert total.cost == sum(c.cost for c in calls) == sum(m.cost for m in total.by_model)
    assert total.unpriced_calls == sum(c.unpriced_calls for c in calls)
    assert total.model_calls == len(calls) == sum(m.model_calls for m in total.by_model)
    assert [m.model for m in total.by_model] == list(dict.fromkeys(c.model for c in calls))
    assert total.complete == all(c.complete for c in calls)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_totals_say_when_a_lost_attempt_may_have_used_tokens(code: ErrorCode) -> None:
    run = ended_step(asking(running()), 1, error(code))
    assert run.usage.complete == (code not in UNKNOWN_USAGE)
    assert run.usage.model_calls == 0
