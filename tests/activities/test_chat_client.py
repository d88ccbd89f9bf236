"""One model request over real HTTP: what comes back, and what each way of failing is called."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from perdure.activities.chat_client import ChatClient
from perdure.activities.reported_usage import model_usage
from tests.activities.asking import BODY, HEL, KEY, ask, refused
from tests.harness.scripted_openai import (
    Reply,
    ScriptedOpenAI,
    call,
    chunk,
    chunks,
    drop,
    raw,
    status,
    text,
    tool_calls,
)


async def test_a_stream_is_read_to_its_end_and_the_request_goes_out_byte_for_byte(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([text("Hel", "lo", usage=(12, 3))])
    answer = await ask(chat)
    assert (answer.text, answer.finish_reason, answer.model) == ("Hello", "stop", "m")
    assert model_usage(answer.usage, "m").total_tokens == 15
    (request,) = model.requests
    assert request.raw == BODY
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert model.violations == []


async def test_tool_calls_arrive_whole(chat: ChatClient, model: ScriptedOpenAI) -> None:
    model.script([tool_calls(call("f", {"q": "ä"}, id="a"), call("g", {}, id="b"))])
    found = [(c.id, c.name, json.loads(c.arguments)) for c in (await ask(chat)).calls]
    assert found == [("a", "f", {"q": "ä"}), ("b", "g", {})]


async def test_an_answer_that_is_no_stream_is_read_as_well(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    body = {"model": "m", "choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
    model.script([status(200, body)])
    answer = await ask(chat)
    assert (answer.text, answer.done) == ("Hi.", True)


GOOD: dict[str, Reply] = {
    "STRM-05 a retry hint": chunks(b"retry: 3000\n\n", HEL, chunk({}, "stop")),
    "comments": chunks(b": waiting\n\n", HEL, b": waiting\n\n", chunk({}, "stop")),
    "done without a finish reason": chunks(HEL),
    "a finish reason without done": chunks(HEL, chunk({}, "stop")).without_done(),
    "cut after the finish reason": chunks(HEL, chunk({}, "stop")).cut(2),
}


@pytest.mark.parametrize("case", list(GOOD))
async def test_an_answer_that_was_said_to_be_complete_is_taken(
    case: str, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([GOOD[case]])
    answer = await ask(chat)
    assert (answer.text, answer.done) == ("Hel", True)


HTML = raw(b"<html>login</html>", "text/html")
ENVELOPE = status(200, {"error": {"message": "Provider returned error", "code": 429}})
CUT_JSON = status(200, {"choices": [{"message": {"content": "Hi."}}]}).cut(1)

BAD: dict[str, tuple[Reply, str, bool]] = {
    "RESP-10 a page": (HTML, "llm_bad_response", True),
    "no content type": (raw(b"", ""), "llm_bad_response", True),
    "JSON of another kind": (status(200, {"ok": True}), "llm_bad_response", True),
    "JSON that is no object": (raw(b"[1]", "application/json"), "llm_bad_response", True),
    "RESP-08 an error in a good answer": (ENVELOPE, "rate_limited", True),
    "RESP-08 a final error in a good answer": (
        status(200, {"error": {"message": "No.", "code": 400}}),
        "invalid_request",
        False,
    ),
    "STRM-06 an error in a stream": (
        chunks(HEL, {"error": {"message": "boom", "code": "server_error"}}),
        "llm_unavailable",
        True,
    ),
    "STRM-06 an error that is text": (
        chunks(HEL, {"error": "STREAM_EXPLODED"}),
        "llm_unavailable",
        True,
    ),
    "RESP-13 finish reason error": (chunks(HEL, chunk({}, "error")), "llm_bad_response", True),
    "STRM-03 no finish, no done": (chunks(HEL).without_done(), "stream_incomplete", True),
    "STRM-11 cut": (chunks(HEL).cut(1), "stream_incomplete", True),
    "STRM-11 cut inside an event": (
        chunks(HEL, b'data: {"choices":[{"del').cut(2),
        "stream_incomplete",
        True,
    ),
    "a stream of nothing": (chunks().without_done(), "stream_incomplete", True),
    "a chunk that is no JSON": (chunks(b"data: <html>\n\n", HEL), "llm_bad_response", True),
    "a chunk that is nested without end": (
        chunks(b"data: " + b"[" * 99999 + b"\n\n"),
        "llm_bad_response",
        True,
    ),
    "a body that is not compressed as it says": (
        status(200, "Hi.", {"content-encoding": "gzip"}),
        "llm_unavailable",
        True,
    ),
    "dropped": (drop(), "llm_unavailable", True),
    "cut in a body that is no stream": (CUT_JSON, "llm_unavailable", True),
    "cut in an error's body": (status(503, "Sorry" * 99).cut(1), "llm_unavailable", True),
    "HTTP-08": (status(401), "llm_auth", False),
    "HTTP-08 forbidden": (status(403), "llm_auth", False),
    "HTTP-05": (
        status(400, {"error": {"code": "context_length_exceeded", "message": "Too long."}}),
        "context_overflow",
        False,
    ),
    "HTTP-03": (
        status(429, {"error": {"code": "insufficient_quota", "type": "insufficient_quota"}}),
        "quota_exhausted",
        False,
    ),
    "HTTP-07": (status(529), "llm_unavailable", True),
    "a page with an error status": (
        status(502, "<html>bad gateway</html>"),
        "llm_unavailable",
        True,
    ),
    "an error that is a list": (status(500, b'["boom"]'), "llm_unavailable", True),
}


@pytest.mark.parametrize("case", list(BAD))
async def test_each_way_of_failing_has_its_code_and_is_asked_once(
    case: str, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    """HTTP-10: the client never retries by itself."""
    reply, code, retryable = BAD[case]
    model.script([reply])
    _, why = await refused(chat)
    assert (why.code, why.retryable) == (code, retryable)
    assert len(model.requests) == 1


async def test_a_page_is_told_with_its_kind_and_its_beginning(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([HTML])
    _, why = await refused(chat)
    assert "text/html" in why.message
    assert "<html>login</html>" in why.message
    assert "OPENAI_BASE_URL" in why.hint
    assert (why.details["content_type"], why.details["status"]) == ("text/html", 200)
    assert why.details["body"] == "<html>login</html>"


async def test_an_answer_that_breaks_off_is_kept_with_the_error(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    """Case STRM-03, INV-3."""
    model.script([chunks(HEL).without_done().with_headers(x_request_id="req_1")])
    _, why = await refused(chat)
    assert (why.details["partial_text"], why.details["request_id"]) == ("Hel", "req_1")
    assert why.details["status"] == 200
    assert '"Hel"' in why.details["body"]


async def test_status_request_id_and_the_beginning_of_the_body_are_kept(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    body = {"error": {"message": "No such thing.", "param": "x" * 9000}}
    model.script([status(400, body, {"x-request-id": "req_1"})])
    _, why = await refused(chat)
    assert why.message == "The provider answered 400: No such thing."
    assert (why.details["status"], why.details["request_id"]) == (400, "req_1")
    assert why.details["body"] == json.dumps(body)[:4096]


RETRY_AFTER: list[tuple[dict[str, str], float | None]] = [
    ({"retry-after-ms": "150"}, 0.15),
    ({"retry-after": "20"}, 20.0),
    ({"retry-after": "1.5"}, 1.5),
    ({"retry-after-ms": "150", "retry-after": "1"}, 0.15),
    ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
    ({}, None),
    ({"retry-after": "0"}, None),
    ({"retry-after": "-5"}, None),
    ({"retry-after": "nan"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
    ({"retry-after": "Wed, 99 Oct 2015 07:28:00"}, None),
    ({"retry-after": "9999999"}, 9999999.0),
    ({"retry-after": "1e300"}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), RETRY_AFTER)
async def test_the_wait_that_a_provider_asks_for_is_handed_to_temporal(
    headers: dict[str, str], seconds: float | None, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    """Case HTTP-01."""
    model.script([status(429, headers=headers)])
    raised, _ = await refused(chat)
    delay = raised.next_retry_delay
    assert (delay.total_seconds() if delay else None) == seconds


async def test_a_wait_until_a_date_is_the_time_that_is_left(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    then = format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True)
    model.script([status(429, headers={"retry-after": then})])
    raised, _ = await refused(chat)
    assert raised.next_retry_delay is not None
    assert timedelta(minutes=29) < raised.next_retry_delay <= timedelta(minutes=30)


async def test_an_error_that_is_final_asks_for_no_wait(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([status(400, headers={"retry-after": "5"})])
    raised, _ = await refused(chat)
    assert raised.next_retry_delay is None


async def test_one_connection_serves_one_answer_after_the_other(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.respond_with(lambda request: text("Hi."))
    for _ in range(5):
        await ask(chat)
    assert model.accepted == 1
