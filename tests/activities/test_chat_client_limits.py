"""Time limits, sizes, secrets and connections of model requests, over real HTTP."""

import asyncio
import socket
from typing import Any

import pytest

from perdure.activities.chat_client import ChatClient
from perdure.activities.openai_chat import Answer
from perdure.runs.limits import Timeouts
from tests.activities.asking import BODY, HEL, KEY, LIMIT_S, PATIENT, ask, refused
from tests.harness.scripted_openai import (
    Gate,
    Reply,
    ScriptedOpenAI,
    chunk,
    chunks,
    hang,
    no_answer,
    raw,
    status,
    text,
)

SHORT_S = 0.2
IDLE = PATIENT.model_copy(update={"model_idle_s": SHORT_S})
FIRST = PATIENT.model_copy(update={"model_first_byte_s": SHORT_S})
WHOLE = PATIENT.model_copy(update={"model_s": SHORT_S})

DRIPPING = chunks(*[b"x"] * 99).with_headers(content_type="application/json")

TIMEOUTS: dict[str, tuple[Reply, Timeouts, str]] = {
    "nothing at all": (no_answer(), FIRST, "answer at all"),
    "headers and nothing more": (hang(), FIRST, "answer at all"),
    "headers, then bytes that make no line": (
        chunks(*[b"x"] * 99).delayed(0.05),
        FIRST,
        "answer at all",
    ),
    "silent after a comment": (chunks(b": wait\n\n").hang(1), IDLE, "go on"),
    "silent in the middle": (chunks(HEL).hang(1), IDLE, "go on"),
    "dripping without ever ending a line": (
        chunks(HEL, *[b"x"] * 99).delayed(0.05),
        IDLE,
        "go on",
    ),
    "comments without an end": (
        chunks(*[b": wait\n\n"] * 99).delayed(0.05),
        WHOLE,
        "answer completely",
    ),
    "dripping in a body that is no stream": (
        DRIPPING.delayed(0.05),
        PATIENT.model_copy(update={"model_idle_s": SHORT_S}),
        "go on",
    ),
    "silent in a body that is no stream": (status(200, {"a": 1}).hang(1), IDLE, "go on"),
    "nothing within the whole time": (no_answer(), WHOLE, "answer completely"),
    "too slow for the whole time": (chunks(*[HEL] * 99).delayed(0.05), WHOLE, "answer completely"),
}


@pytest.mark.parametrize("case", list(TIMEOUTS))
async def test_each_time_limit_is_kept_and_named(
    case: str, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    reply, timeouts, what = TIMEOUTS[case]
    model.script([reply])
    _, why = await refused(chat, timeouts)
    assert (why.code, why.retryable) == ("llm_timeout", True)
    assert why.message == f"The provider did not {what} within {SHORT_S} s."
    await closed(model)


async def test_a_slow_stream_is_not_idle(chat: ChatClient, model: ScriptedOpenAI) -> None:
    model.script([text(*["a"] * 8).delayed(0.06)])
    idle = PATIENT.model_copy(update={"model_idle_s": 0.5})
    assert (await ask(chat, idle)).text == "a" * 8


THINKING = Timeouts(model_s=10, model_first_byte_s=0.5, model_idle_s=0.5)
LONG_THOUGHTS: dict[str, Reply] = {
    "comments first": chunks(*[b": PROCESSING\n\n"] * 12, HEL, chunk({}, "stop")),
    "comments between": chunks(HEL, *[b": PROCESSING\n\n"] * 12, chunk({}, "stop")),
    "empty chunks first": chunks(*[chunk({})] * 12, HEL, chunk({}, "stop")),
    "hints first": chunks(*[b"retry: 1\n"] * 12, b"\n", HEL, chunk({}, "stop")),
    "blank lines before a body that is no stream": chunks(
        *[b"\n"] * 12,
        b'{"choices":[{"message":{"content":"Hel"}}]}',
    )
    .without_done()
    .with_headers(content_type="application/json"),
}


@pytest.mark.parametrize("case", list(LONG_THOUGHTS))
async def test_signs_of_life_let_a_model_think_longer_than_any_silence(
    case: str, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([LONG_THOUGHTS[case].delayed(0.08)])
    assert (await ask(chat, THINKING)).text == "Hel"


async def test_a_model_may_think_before_its_first_event_though_headers_came_at_once(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([chunks(HEL, chunk({}, "stop")).delayed(SHORT_S * 2)])
    patient_at_first = PATIENT.model_copy(update={"model_idle_s": SHORT_S * 4})
    assert (await ask(chat, patient_at_first)).text == "Hel"
    model.script([chunks(HEL, chunk({}, "stop")).hold(gate := Gate(), before_chunk=0)])
    task = asyncio.create_task(ask(chat, IDLE))
    await gate.reached
    await asyncio.sleep(SHORT_S * 2)
    gate.open()
    assert (await task).text == "Hel"


async def test_silence_after_the_end_of_the_answer_does_not_lose_it(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([chunks(HEL, chunk({}, "stop")).hang(2)])
    answer = await ask(chat, IDLE)
    assert (answer.text, answer.done) == ("Hel", True)
    await closed(model)


async def test_what_came_before_a_failure_is_kept(chat: ChatClient, model: ScriptedOpenAI) -> None:
    model.script([chunks(HEL).cut(1)])
    answer = Answer()
    with pytest.raises(Exception, match="ended before the answer did"):
        await chat.ask(BODY, answer, PATIENT)
    assert (answer.text, answer.done) == ("Hel", False)


async def test_a_provider_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: a connection is refused
        chat = ChatClient(KEY, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        _, why = await refused(chat)
        await chat.close()
    assert (why.code, why.retryable) == ("llm_unavailable", True)
    assert "could not be reached" in why.message


@pytest.mark.parametrize(
    "reply",
    [
        chunks(*[chunk({"content": "x" * 100})] * 20),
        chunks(*[chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x" * 100}}]})] * 20),
        chunks(*[chunk({"refusal": "x" * 100})] * 20),
        chunks(*[chunk({"content": "漢" * 34})] * 20),
        chunks(*[chunk({"content": "\ud83d"})] * 400),
    ],
)
async def test_an_answer_without_an_end_is_stopped_and_not_asked_for_again(
    reply: Reply, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([reply.hang(400)])
    _, why = await refused(chat, max_bytes=1000)
    assert (why.code, why.retryable) == ("max_output", False)
    await closed(model)


async def test_a_large_answer_that_is_no_stream_is_refused_as_well(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([status(200, {"choices": [{"message": {"content": "x" * 1001}}]})])
    _, why = await refused(chat, max_bytes=1000)
    assert (why.code, why.retryable) == ("max_output", False)


LEAKS: dict[str, Reply] = {
    "a status": status(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
    "a status with a page": status(502, f"<html>{KEY}</html>"),
    "a foreign key": status(401, {"error": {"message": "Bad key sk-FAKE0123456789abcdef"}}),
    "a page": raw(f"<html>{KEY}</html>".encode(), "text/html"),
    "a page that is cut within the key": raw(b"x" * 190 + KEY.encode(), "text/html"),
    "a page with a status, cut within the key": status(500, "x" * 190 + KEY),
    "an error in a stream": chunks({"error": {"message": f"Bad key {KEY}"}}),
    "a chunk that is no JSON": chunks(f"data: {KEY}\n\n".encode()),
    "a body cut within the key": status(401, "x " * 4090 + KEY),
    "a stream cut within the key": chunks(
        b": " + b"x" * 8180 + KEY.encode() + b"\n\n", b"data: {\n\n"
    ),
    "a chunk cut within the key": chunks(b"data: " + b"x" * 190 + KEY.encode() + b"\n\n"),
}


@pytest.mark.parametrize("case", list(LEAKS))
async def test_no_error_and_no_log_holds_a_key_or_a_part_of_one(
    case: str, chat: ChatClient, model: ScriptedOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    """Case HTTP-08."""
    model.script([LEAKS[case]])
    raised, why = await refused(chat)
    for said in (str(raised), why.model_dump_json(), str(raised.details), caplog.text):
        assert "0123" not in said
        assert "sk-test" not in said
    assert "redacted" in f"{why.message} {why.details}" or "cut" in case


async def closed(model: ScriptedOpenAI) -> None:
    """Wait until the provider has seen every connection close before its answer was complete.

    Raises:
        TimeoutError: When one stays open.
    """
    async with asyncio.timeout(LIMIT_S):
        for request in model.requests:
            await request.disconnected.wait()
    assert len(model.connections) == 0


class Heard(Answer):
    """An answer that tells when its first chunk is there."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def feed(self, chunk: Any) -> None:
        super().feed(chunk)
        self.heard.set()


async def test_a_cancelled_request_closes_its_connection_and_keeps_what_came(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.script([chunks(HEL).hang(1)])
    answer = Heard()
    task = asyncio.create_task(chat.ask(BODY, answer, PATIENT))
    async with asyncio.timeout(LIMIT_S):
        await answer.heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert answer.text == "Hel"
    await closed(model)


@pytest.mark.parametrize("reply", [chunks(b"data: <html>\n\n", HEL).hang(2), chunks(HEL).hang(1)])
async def test_broken_streams_give_their_connections_back(
    reply: Reply, chat: ChatClient, model: ScriptedOpenAI
) -> None:
    """Case STRM-15."""
    model.script([reply] * 3)
    for _ in range(3):
        await refused(chat, IDLE)
    await closed(model)


async def test_requests_one_after_the_other_use_one_connection(
    chat: ChatClient, model: ScriptedOpenAI
) -> None:
    model.respond_with(lambda request: text("Hi."))
    for _ in range(5):
        await ask(chat)
    assert len(model.connections) == 1
