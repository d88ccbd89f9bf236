"""What providers' refusals mean, and that nothing they send breaks the reading of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.openai_chat import Answer
from perdure.activities.provider_errors import envelope_error, provider_error
from perdure.activities.reported_usage import is_suspect, model_usage
from perdure.runs.errors import ErrorCode
from tests.activities.streams import delta, folded

STATUSES: list[tuple[int, dict[str, Any], ErrorCode, bool]] = [
    (400, {"message": "No."}, ErrorCode.PROVIDER_REFUSED_REQUEST, False),
    (400, {"code": "context_length_exceeded"}, ErrorCode.CONTEXT_OVERFLOW, False),
    (401, {"code": None, "type": "invalid_request_error"}, ErrorCode.LLM_AUTH, False),
    (401, {"code": "invalid_api_key"}, ErrorCode.LLM_AUTH, False),
    (402, {"message": "Insufficient balance"}, ErrorCode.QUOTA_EXHAUSTED, False),
    (403, {}, ErrorCode.LLM_AUTH, False),
    (404, {"code": "model_not_found"}, ErrorCode.MODEL_NOT_FOUND, False),
    (404, {"message": "The model `x` does not exist"}, ErrorCode.MODEL_NOT_FOUND, False),
    (404, {"message": "No such page"}, ErrorCode.PROVIDER_REFUSED_REQUEST, False),
    (408, {}, ErrorCode.LLM_UNAVAILABLE, True),
    (422, {}, ErrorCode.PROVIDER_REFUSED_REQUEST, False),
    (429, {}, ErrorCode.RATE_LIMITED, True),
    (429, {"type": "requests", "code": "rate_limit_exceeded"}, ErrorCode.RATE_LIMITED, True),
    (429, {"code": "insufficient_quota"}, ErrorCode.QUOTA_EXHAUSTED, False),
    (429, {"code": 429, "type": "insufficient_quota"}, ErrorCode.QUOTA_EXHAUSTED, False),
    (500, {"message": "Failed to parse tool call arguments"}, ErrorCode.LLM_UNAVAILABLE, True),
    (503, {}, ErrorCode.LLM_UNAVAILABLE, True),
    (529, {"type": "overloaded_error"}, ErrorCode.LLM_UNAVAILABLE, True),
]

ENVELOPES: list[tuple[Any, ErrorCode, bool]] = [
    ({"message": "Provider returned error", "code": 429}, ErrorCode.RATE_LIMITED, True),
    ({"message": "Provider returned error", "code": "429"}, ErrorCode.RATE_LIMITED, True),
    ({"code": "rate_limit_exceeded"}, ErrorCode.RATE_LIMITED, True),
    ({"code": 502}, ErrorCode.LLM_UNAVAILABLE, True),
    ({"code": 400}, ErrorCode.PROVIDER_REFUSED_REQUEST, False),
    ({"type": "invalid_request_error"}, ErrorCode.PROVIDER_REFUSED_REQUEST, False),
    ({"code": 401}, ErrorCode.LLM_AUTH, False),
    ({"code": "invalid_api_key"}, ErrorCode.LLM_AUTH, False),
    ({"code": "context_length_exceeded"}, ErrorCode.CONTEXT_OVERFLOW, False),
    ({"message": "boom", "code": "server_error"}, ErrorCode.LLM_UNAVAILABLE, True),
    ({"code": 1234567}, ErrorCode.LLM_UNAVAILABLE, True),
    ("STREAM_EXPLODED", ErrorCode.LLM_UNAVAILABLE, True),
    (["boom"], ErrorCode.LLM_UNAVAILABLE, True),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
CHUNK_KEYS = st.sampled_from(
    "choices delta message tool_calls function name arguments id index content refusal "
    "finish_reason usage model error code prompt_tokens".split()
)
CHUNKS = st.recursive(
    JSON,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(CHUNK_KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("status", "body", "code", "retryable"), STATUSES)
def test_a_status_and_the_provider_s_own_code_say_what_went_wrong(
    status: int, body: dict[str, Any], code: ErrorCode, retryable: bool
) -> None:
    """Cases HTTP-03, HTTP-05, HTTP-07, HTTP-08, RESP-06."""
    why = provider_error(status, body)
    assert (why.code, why.retryable, why.details["status"]) == (code, retryable, status)
    assert str(body.get("message") or status) in why.message


@pytest.mark.parametrize(("envelope", "code", "retryable"), ENVELOPES)
def test_an_error_inside_a_good_answer_counts_as_its_own_code_says(
    envelope: Any, code: ErrorCode, retryable: bool
) -> None:
    """Cases RESP-08, STRM-06."""
    why = envelope_error(envelope)
    assert (why.code, why.retryable) == (code, retryable)
    answer = folded([delta(content="Hel"), {"error": envelope}])
    assert answer.failure == why
    assert not answer.done


@given(st.lists(CHUNKS, max_size=3))
def test_no_json_at_all_breaks_the_fold(chunks: list[Any]) -> None:
    answer = Answer()
    for chunk in chunks:
        answer.feed(chunk)
    answer.problem()
    model_usage(answer.usage, "m")
    is_suspect(answer.usage)


@given(st.lists(st.dictionaries(CHUNK_KEYS, CHUNKS, max_size=4), max_size=3), st.booleans())
def test_no_delta_at_all_breaks_the_fold(deltas: list[Any], streamed: bool) -> None:
    answer = Answer()
    for each in deltas:
        said = {"tool_calls": [each, {"function": each}], **each}
        answer.feed({"choices": [{"delta" if streamed else "message": said}], "usage": each})
    answer.problem()
    model_usage(answer.usage, "m")
    is_suspect(answer.usage)
