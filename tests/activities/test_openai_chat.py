"""Chunks that providers really sent, folded to one answer. Names of cases: part and number."""

from typing import Any

import pytest

from perdure.activities.openai_chat import clean
from perdure.activities.reported_usage import model_usage
from perdure.runs.errors import ErrorCode
from tests.activities.streams import delta, entry, folded, piece, whole

DONE = delta("stop")
NO_CHOICES: dict[str, Any] = {"choices": []}

TEXTS: dict[str, tuple[list[Any], str, bool]] = {
    "STRM-01 no choices first and last": (
        [NO_CHOICES, delta(content="Hel"), delta(content="lo"), DONE, NO_CHOICES],
        "Hello",
        True,
    ),
    "STRM-02 pings of all shapes between": (
        [
            delta(content="a"),
            NO_CHOICES,
            {"choices": None},
            {"choices": [{"index": 0, "delta": None}]},
            {"choices": [{"index": 0}]},
            {},
            None,
            "ping",
            delta(content="b"),
            DONE,
        ],
        "ab",
        True,
    ),
    "STRM-03 no finish": ([delta(content="Hel")], "Hel", False),
    "RESP-12 empty finish reasons, then one": (
        [delta("", content="a"), delta("", content="b"), delta("stop")],
        "ab",
        True,
    ),
    "RESP-12 empty finish reasons only": ([delta("", content="a"), delta("")], "a", False),
    "HIST-08 a pair of surrogates in two chunks": (
        [delta(content="\ud83d"), delta(content="\ude00"), DONE],
        "😀",
        True,
    ),
    "a whole answer": ([whole(content="Hi.")], "Hi.", True),
}

CALLS: dict[str, tuple[list[Any], list[tuple[str, str, str]]]] = {
    "TOOL-09 one id twice, streamed": (
        [piece("pay", '{"eur":5}', index=n, id="dup") for n in (0, 1)],
        [("dup", "pay", '{"eur":5}')] * 2,
    ),
    "TOOL-09 one id twice, streamed without an index": (
        [piece("pay", '{"eur":5}', id="dup")] * 2,
        [("dup", "pay", '{"eur":5}')] * 2,
    ),
    "TOOL-09 one id twice, whole": (
        [whole(entry("dup", "pay", '{"eur":5}'), entry("dup", "pay", '{"eur":5}'))],
        [("dup", "pay", '{"eur":5}')] * 2,
    ),
    "TOOL-10 one id for two calls, whole": (
        [whole(entry("x", "read", '{"f":"a"}'), entry("x", "read", '{"f":"b"}'))],
        [("x", "read", '{"f":"a"}'), ("x", "read", '{"f":"b"}')],
    ),
    "TOOL-13 no ids, whole": (
        [whole(entry(None, "read", '{"f":"a"}'), entry(None, "read", '{"f":"b"}'))],
        [("", "read", '{"f":"a"}'), ("", "read", '{"f":"b"}')],
    ),
    "TOOL-13 no ids and no arguments, whole": (
        [whole(entry(None, "ping", ""), entry(None, "ping", ""))],
        [("", "ping", "")] * 2,
    ),
    "STRM-08 all with index 0, ids differ": (
        [piece("find", '{"q":"x"}', index=0, id="a"), piece("find", '{"q":"y"}', index=0, id="b")],
        [("a", "find", '{"q":"x"}'), ("b", "find", '{"q":"y"}')],
    ),
    "STRM-08 all with index 0, ids differ, no arguments": (
        [piece("ping", "", index=0, id="a"), piece("ping", "", index=0, id="b")],
        [("a", "ping", ""), ("b", "ping", "")],
    ),
    "STRM-08 all with index 0, no ids": (
        [piece("find", '{"q":"x"}', index=0), piece("find", '{"q":"y"}', index=0)],
        [("", "find", '{"q":"x"}'), ("", "find", '{"q":"y"}')],
    ),
    "STRM-10 interleaved": (
        [
            piece("f", "", index=0, id="a"),
            piece("g", None, index=1, id="b"),
            piece(None, '{"q"', index=0),
            piece(None, '{"r"', index=1),
            piece(None, ":1}", index=0),
            piece(None, ":2}", index=1),
        ],
        [("a", "f", '{"q":1}'), ("b", "g", '{"r":2}')],
    ),
    "pieces without an index": (
        [piece("f", '{"q"', id="a"), piece(None, ":1}"), piece("g", "{}", id="b")],
        [("a", "f", '{"q":1}'), ("b", "g", "{}")],
    ),
    "the name again with every piece": (
        [
            piece("f", "", index=0, id="a"),
            piece("f", '{"q"', index=0, id="a"),
            piece("f", ":1}", index=0, id="a"),
            piece("f", "", index=0, id="a"),
        ],
        [("a", "f", '{"q":1}')],
    ),
    "the name in pieces": (
        [piece("cal", "", index=0, id="a"), piece("culate", "{}", index=0)],
        [("a", "calculate", "{}")],
    ),
    "arguments as an object": ([piece("f", {"q": 1}, index=0)], [("", "f", '{"q": 1}')]),
    "index null": (
        [piece("f", '{"q"', index=None, id="a"), piece(None, ":1}", index=None)],
        [("a", "f", '{"q":1}')],
    ),
}

FINISHES = {
    "stop": (None, False),
    "tool_calls": (None, False),
    "eos": (None, False),
    "length": (ErrorCode.OUTPUT_TRUNCATED, False),
    "MAX_TOKENS": (ErrorCode.OUTPUT_TRUNCATED, False),
    "model_length": (ErrorCode.OUTPUT_TRUNCATED, False),
    "content_filter": (ErrorCode.CONTENT_FILTERED, False),
    "error": (ErrorCode.LLM_BAD_RESPONSE, True),
}

USAGES: dict[str, tuple[list[Any], tuple[int, int, int, int], bool]] = {
    "STRM-13 zero until the end": (
        [
            {"usage": {"prompt_tokens": p, "completion_tokens": c}}
            for p, c in [(0, 0), (0, 0), (12, 34)]
        ],
        (12, 34, 0, 0),
        True,
    ),
    "STRM-14 no prompt tokens": (
        [{"usage": {"prompt_tokens": 0, "completion_tokens": 34}}],
        (0, 34, 0, 0),
        True,
    ),
    "STRM-14 running totals": (
        [{"usage": {"completion_tokens": n}} for n in (10, 20, 34)],
        (0, 34, 0, 0),
        True,
    ),
    "STRM-14 null afterwards": (
        [{"usage": {"completion_tokens": 34}}, {"usage": None}],
        (0, 34, 0, 0),
        True,
    ),
    "HTTP-12 null details": (
        [
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 1,
                    "total_tokens": 10,
                    "prompt_tokens_details": {"cached_tokens": None},
                    "completion_tokens_details": None,
                }
            }
        ],
        (9, 1, 0, 0),
        True,
    ),
    "details": (
        [
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 3},
                }
            }
        ],
        (9, 5, 4, 3),
        True,
    ),
    "nonsense": (
        [{"usage": {"prompt_tokens": -9, "completion_tokens": "-7", "prompt_tokens_details": [1]}}],
        (0, 0, 0, 0),
        True,
    ),
    "none": ([delta(content="Hi.")], (0, 0, 0, 0), False),
}


@pytest.mark.parametrize("case", list(TEXTS))
def test_text_is_folded_whatever_stands_between(case: str) -> None:
    chunks, text, done = TEXTS[case]
    answer = folded(chunks)
    assert (clean(answer.text), answer.done, answer.calls) == (text, done, [])


@pytest.mark.parametrize("case", list(CALLS))
def test_calls_are_told_apart_and_put_together(case: str) -> None:
    chunks, calls = CALLS[case]
    assert [(call.id, call.name, call.arguments) for call in folded(chunks).calls] == calls


@pytest.mark.parametrize("finish", list(FINISHES))
def test_finish_reasons_are_understood_by_all_their_names(finish: str) -> None:
    """Case RESP-13."""
    code, retryable = FINISHES[finish]
    answer = folded([delta(content="Hi."), delta(finish)])
    problem = answer.failure or answer.problem()
    assert (problem.code if problem else None) == code
    assert (problem.retryable if problem else False) == retryable
    assert answer.finish_reason == finish


@pytest.mark.parametrize("finish", ["stop", "length", "eos"])
def test_calls_count_and_not_the_finish_reason(finish: str) -> None:
    """Case RESP-01."""
    answer = folded([piece("ping", "{}", index=0, id="a"), delta(finish)])
    assert answer.problem() is None
    assert not answer.is_empty


@pytest.mark.parametrize(
    "chunks",
    [
        [delta(refusal="I can't "), delta(refusal="help."), DONE],
        [whole(refusal="I can't help.")],
    ],
)
def test_a_refusal_is_no_empty_answer(chunks: list[Any]) -> None:
    """Case RESP-07."""
    answer = folded(chunks)
    problem = answer.problem()
    assert (answer.refusal, answer.is_empty) == ("I can't help.", False)
    assert problem is not None
    assert (problem.code, problem.retryable) == (ErrorCode.REFUSED, False)


@pytest.mark.parametrize("case", list(USAGES))
def test_usage_is_the_last_that_was_reported(case: str) -> None:
    chunks, counts, complete = USAGES[case]
    usage = model_usage(folded(chunks).usage, "m")
    assert (
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_details.cached_tokens,
        usage.output_tokens_details.reasoning_tokens,
    ) == counts
    assert (usage.complete, usage.model_calls, usage.model) == (complete, 1, "m")
