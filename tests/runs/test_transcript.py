"""The conversation inside a Run: its order, its exact bytes, its digest."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import (
    AssistantMessage,
    Message,
    MessageCall,
    ToolMessage,
    UserMessage,
    canonical_json,
    wire,
    without_lone_surrogates,
)
from perdure.runs.steps import Mark, ToolReply
from perdure.runs.transcript import advance, messages, since_last_answer
from tests.harness.transcript_rules import check_request
from tests.runs.building import (
    answered,
    asking,
    at,
    ended_step,
    executed,
    moves,
    rejected,
    reply,
    running,
    wanted,
)

CALL = MessageCall(id="a", name="look", arguments='{"at":"ö"}')


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (UserMessage(content="Grüße"), '{"role":"user","content":"Grüße"}'),
        (AssistantMessage(content="Hi."), '{"role":"assistant","content":"Hi."}'),
        (AssistantMessage(), '{"role":"assistant","content":""}'),
        (
            AssistantMessage(tool_calls=(CALL,)),
            '{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",'
            '"function":{"name":"look","arguments":"{\\"at\\":\\"ö\\"}"}}]}',
        ),
        (
            ToolMessage(tool_call_id="a", content=""),
            '{"role":"tool","tool_call_id":"a","content":""}',
        ),
    ],
)
def test_each_kind_of_message_has_one_wire_form(message: Message, written: str) -> None:
    assert wire(message).decode() == written


def test_an_empty_list_of_tool_calls_never_leaves_us() -> None:
    """Some servers refuse it, deep in the transcript (HIST, RESP-02)."""
    stored = AssistantMessage.model_validate(
        {"role": "assistant", "content": "hello", "tool_calls": []}
    )
    assert b"tool_calls" not in wire(stored)


@given(content=st.none() | st.text(st.characters(codec="utf-8")), called=st.booleans())
def test_content_is_null_only_beside_tool_calls(content: str | None, called: bool) -> None:
    said = AssistantMessage(content=content, tool_calls=(CALL,) if called else ())
    body = [json.loads(wire(said))]
    if called:
        body.append(json.loads(wire(ToolMessage(tool_call_id="a", content="2"))))
    assert check_request({"messages": body}) == []


def test_the_digest_chains_sha_256_over_the_wire_form_of_each_message() -> None:
    first, second = wire(UserMessage(content="Go.")), wire(AssistantMessage(content="Hi."))
    one = hashlib.sha256(first).hexdigest()
    two = hashlib.sha256(one.encode() + second).hexdigest()
    assert advance(advance(Mark(), first), second) == Mark(count=2, digest=two)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_transcripts_that_differ_have_marks_that_differ(one: list[bytes], two: list[bytes]) -> None:
    marks = [Mark(), Mark()]
    for which, wired in enumerate((one, two)):
        for each in wired:
            marks[which] = advance(marks[which], each)
    assert (marks[0] == marks[1]) == (one == two)


def test_results_follow_in_the_order_of_their_calls_and_not_of_their_arrival() -> None:
    run = answered(running(), reply("Two.", wanted("a"), rejected("b"), wanted("c")))
    run = executed(run, "c", ToolReply(text="3"))
    run = executed(run, "a", ToolReply(text="1"))
    told = list(messages(run))
    assert [each.tool_call_id for each in told if isinstance(each, ToolMessage)] == ["a", "b", "c"]
    mark, new = since_last_answer(run)
    assert mark == run.steps[0].mark
    assert list(new) == told[2:]


def test_a_model_step_without_a_usable_answer_adds_no_message() -> None:
    run = ended_step(asking(running()), 1, reply("Hal", error=error(ErrorCode.STREAM_INCOMPLETE)))
    assert list(messages(run)) == [UserMessage(content="Go.")]
    assert since_last_answer(run) == (Mark(), (UserMessage(content="Go."),))


def test_a_refusal_beside_calls_has_the_same_words_in_run_transcript_and_digest() -> None:
    run = answered(running(), reply("Text.", wanted("a"), refusal="I would rather not."))
    mark = Mark()
    for message in list(messages(run))[:2]:
        mark = advance(mark, wire(message))
    assert run.steps[0].mark == mark
    assert run.steps[0].text == "I would rather not."
    assert run.transcript_chars == len("Go.I would rather not.{}")


def test_a_run_stopped_among_parallel_calls_leaves_every_call_answered() -> None:
    """A transcript with open calls is refused for ever after (HIST-09)."""
    run = answered(running(), reply(None, wanted("a"), wanted("b"), wanted("c")))
    run = executed(run, "b", ToolReply(text="2"))
    run = run.apply(moves(run)["cancelled"])
    told = [json.loads(wire(each)) for each in messages(run)]
    assert check_request({"messages": told}) == []
    assert [each["tool_call_id"] for each in told[2:]] == ["a", "b", "c"]
    assert '"code":"cancelled"' in told[2]["content"]
    assert run.completed_at == at(9)


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("plain", "plain"),
        ("grüße 漢字 😀", "grüße 漢字 😀"),
        ("ok \udc9d", "ok \ufffd"),
        ("\ud83d", "\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("😀 \ude00\ud83d", "😀 \ufffd\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_halves_joined(given_text: str, kept: str) -> None:
    assert without_lone_surrogates(given_text) == kept


@given(st.text(st.characters()))
def test_text_without_lone_surrogates_can_always_be_written(text: str) -> None:
    cleaned = without_lone_surrogates(text)
    assert cleaned.encode() is not None
    assert without_lone_surrogates(cleaned) == cleaned


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_json_is_refused_rather_than_written(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"ratio": [value]})


def test_big_integers_are_written_exactly() -> None:
    assert canonical_json({"id": 2512292042121000001}) == b'{"id":2512292042121000001}'
