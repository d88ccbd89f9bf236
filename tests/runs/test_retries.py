"""The retry table: what is tried again, how often, how soon."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runs.errors import MEANINGS, ErrorCode
from perdure.runs.retries import MAX_ATTEMPTS, RETRIES, RetryRule

NEVER = {
    ErrorCode.QUOTA_EXHAUSTED,
    ErrorCode.LLM_AUTH,
    ErrorCode.PROVIDER_REFUSED_REQUEST,
    ErrorCode.CONTEXT_OVERFLOW,
    ErrorCode.MODEL_NOT_FOUND,
    ErrorCode.CONTENT_FILTERED,
    ErrorCode.REFUSED,
    ErrorCode.MAX_OUTPUT,
}


def test_what_would_only_fail_again_is_not_in_the_table() -> None:
    assert not NEVER & set(RETRIES)
    assert all(rule.max_attempts <= MAX_ATTEMPTS for rule in RETRIES.values())


def test_the_docs_say_of_each_code_what_the_table_says() -> None:
    by_us = {code for code, (_, retried, _) in MEANINGS.items() if retried == "by us"}
    assert set(RETRIES) <= by_us
    assert not by_us & NEVER


@given(st.integers(1, 10_000), st.floats(0.01, 100), st.floats(0.01, 1000))
def test_delays_double_up_to_the_longest(attempt: int, first: float, longest: float) -> None:
    rule = RetryRule(max_attempts=3, first_s=first, longest_s=longest)
    delay = rule.delay_s(attempt)
    assert min(first, longest) <= delay <= longest
    assert rule.delay_s(attempt + 1) == min(longest, 2 * delay) or delay == longest


@pytest.mark.parametrize(
    ("code", "least_s"), [(ErrorCode.RATE_LIMITED, 300), (ErrorCode.LLM_UNAVAILABLE, 120)]
)
def test_overload_is_waited_out_for_minutes(code: ErrorCode, least_s: float) -> None:
    rule = RETRIES[code]
    assert sum(rule.delay_s(n) for n in range(1, rule.max_attempts)) >= least_s
