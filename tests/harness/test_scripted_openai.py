"""The scripted server as clients see it: the real OpenAI client, and raw sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    ScriptedOpenAI,
    call,
    chunk,
    chunks,
    drop,
    hang,
    no_answer,
    raw,
    status,
    text,
    tool_calls,
)

ASK: list[Any] = [{"role": "user", "content": "How much is 1+1?"}]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedOpenAI]:
    async with ScriptedOpenAI() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedOpenAI) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        yield client


async def stream(client: AsyncOpenAI, messages: list[Any] = ASK) -> list[Any]:
    """Return the chunks of one streamed reply."""
    reply = await client.chat.completions.create(
        model="m", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    return [item async for item in reply]


@asynccontextmanager
async def raw_request(
    server: ScriptedOpenAI, **body: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send one request over a socket of our own."""
    port = int(server.base_url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    send(writer, **body)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def send(writer: asyncio.StreamWriter, **body: Any) -> None:
    data = json.dumps({"model": "m", "messages": ASK, "stream": True, **body}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


async def test_text_streams_piece_by_piece_and_its_usage_comes_last(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    server.script([text("It is ", "2.", usage=(12, 5, 4, 1))])
    *deltas, end, usage = await stream(client)
    assert [item.choices[0].delta.content for item in deltas] == ["", "It is ", "2."]
    assert end.choices[0].finish_reason == "stop"
    assert (usage.choices, usage.usage.total_tokens) == ([], 17)
    assert server.reported_usage == (12, 5, 4, 1)
    [request] = server.requests
    assert (request.messages, request.model, request.stream) == (ASK, "m", True)
    assert request.headers["authorization"] == "Bearer none"
    assert request.completed.is_set()
    assert not request.disconnected.is_set()
    assert server.violations == []


async def test_usage_is_sent_only_if_asked_for_and_supported(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    server.script([text("hello"), text("hello").without_usage()])
    reply = await client.chat.completions.create(model="m", messages=ASK, stream=True)
    assert [item.usage async for item in reply] == [None] * 3
    assert all(item.usage is None for item in await stream(client))
    assert server.reported_usage == (0, 0, 0, 0)


async def test_tool_calls_are_the_same_streamed_and_whole(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    calls = [call("calculate", {"expression": "1+1"}, id="a"), call("broken", '{"x": ')]
    server.script([tool_calls(*calls), tool_calls(*calls)])
    folded: dict[int, list[str]] = {}
    for item in await stream(client):
        for choice in item.choices:
            for part in choice.delta.tool_calls or []:
                known = folded.setdefault(part.index, [part.id, part.function.name, ""])
                known[2] += part.function.arguments
    whole = await client.chat.completions.create(model="m", messages=ASK)
    assert whole.usage is not None
    assert whole.choices[0].finish_reason == "tool_calls"
    assert [c.to_dict() for c in whole.choices[0].message.tool_calls or []] == [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in (
            ("a", "calculate", '{"expression": "1+1"}'),
            ("call_1_1", "broken", '{"x": '),
        )
    ]
    assert folded == {
        0: ["a", "calculate", '{"expression": "1+1"}'],
        1: ["call_0_1", "broken", '{"x": '],
    }


async def test_status_headers_and_foreign_bodies_reach_the_client(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    server.script([status(429, headers={"Retry-After": "7"}), raw(b"<html>", "text/html", 502)])
    with pytest.raises(openai.RateLimitError) as limited:
        await stream(client)
    assert limited.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.InternalServerError) as broken:
        await stream(client)
    assert broken.value.response.headers["content-type"] == "text/html"


async def test_any_chunk_can_be_sent(server: ScriptedOpenAI, client: AsyncOpenAI) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    odd = chunk({"content": "a", "reasoning_content": "b"}, finish_reason="length", usage=usage)
    server.script([chunks(b": a comment\n\n", odd)])
    [item] = await stream(client)
    assert item.choices[0].delta.reasoning_content == "b"
    assert server.reported_usage == (1, 2, 0, 0)


async def test_replies_are_chosen_by_matcher_then_script_then_callable(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    def is_other(request: RecordedRequest) -> bool:
        return bool(request.messages[0]["content"] == "other")

    server.respond_with(lambda request: text(f"number {request.index}"))
    server.script([text("scripted")])
    server.on(is_other, text("matched"))
    contents = []
    for message in ("other", "a", "other"):
        items = await stream(client, [{"role": "user", "content": message}])
        contents.append(items[1].choices[0].delta.content)
    assert contents == ["matched", "scripted", "number 2"]


async def test_a_missing_reply_and_a_failing_callable_are_violations(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    def fail(request: RecordedRequest) -> Reply:
        raise AssertionError("unexpected")

    with pytest.raises(openai.BadRequestError):
        await stream(client)
    server.respond_with(fail)
    with pytest.raises(openai.BadRequestError):
        await stream(client, [{"role": "user", "content": None}])
    assert server.violations == [
        "request 0: the script has no reply left",
        "request 1: messages[0]: content may be null only beside tool_calls",
        "request 1: the script failed: AssertionError('unexpected')",
    ]


async def test_a_gate_holds_the_answer_until_it_is_opened(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    before, between = Gate(), Gate()
    server.script([text("a", "b").hold(before).hold(between, before_chunk=2)])
    asking = asyncio.create_task(stream(client))
    await before.reached
    assert not asking.done()
    before.open()
    await between.reached
    assert not server.requests[0].completed.is_set()
    between.open()
    assert len(await asking) == 5
    with pytest.raises(TimeoutError, match="no answer reached the gate"):
        await Gate(timeout_s=0.01).reached


async def test_a_client_that_goes_during_the_answer_is_noted(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    gate = Gate()
    server.script([text("a", "b").hold(gate, before_chunk=2)])
    asking = asyncio.create_task(stream(client))
    await gate.reached
    asking.cancel()
    [request] = server.requests
    await asyncio.wait_for(request.disconnected.wait(), 10)
    assert not request.completed.is_set()
    assert server.reported_usage == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("reply", "ends", "chunk_count", "done"),
    [
        (text("a"), True, 3, True),
        (text("a").without_done(), True, 3, False),
        (text("a").without_done(after_chunks=1), True, 1, False),
        (text("a").cut(after_chunks=2), False, 2, False),
        (text("a").cut(after_chunks=0), False, 0, False),
    ],
)
async def test_a_stream_ends_as_scripted(
    server: ScriptedOpenAI, reply: Reply, ends: bool, chunk_count: int, done: bool
) -> None:
    server.script([reply])
    async with raw_request(server) as (reader, _):
        if ends:
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        else:
            answer = await reader.read()
            assert not answer.endswith(b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"data: {") == chunk_count
    assert (b"data: [DONE]" in answer) is done


async def test_a_cut_in_a_whole_object_stops_in_the_middle(server: ScriptedOpenAI) -> None:
    server.script([text("a").cut(after_chunks=1), drop()])
    async with raw_request(server, stream=False) as (reader, _):
        head, body = (await reader.read()).split(b"\r\n\r\n")
    assert b"content-length: " in head
    assert body.startswith(b"{")
    assert not body.endswith(b"}")
    async with raw_request(server, stream=False) as (reader, _):
        assert await reader.read() == b""


async def test_hanging_replies_wait_for_the_client_to_go(server: ScriptedOpenAI) -> None:
    server.script([hang(), no_answer()])
    async with raw_request(server) as (reader, _):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    async with raw_request(server) as (reader, _):
        await server.wait_for_requests(2)
    for request in server.requests:
        await asyncio.wait_for(request.disconnected.wait(), 10)
        assert not request.completed.is_set()
    with pytest.raises(TimeoutError, match="2 of 3 requests"):
        await server.wait_for_requests(3, timeout_s=0.01)


async def test_one_connection_serves_many_requests_in_order(server: ScriptedOpenAI) -> None:
    server.script([text("first"), text("second").delayed(0.001)])
    async with raw_request(server) as (reader, writer):
        send(writer)
        assert b"first" in await reader.readuntil(b"\r\n0\r\n\r\n")
        assert b"second" in await reader.readuntil(b"\r\n0\r\n\r\n")
    assert len(server.requests) == 2


async def test_requests_that_are_no_chat_completions_are_recorded_or_refused(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("m")
    assert server.requests[0].path == "/v1/models/m"
    async with raw_request(server, temperature=float("nan")) as (reader, _):
        await reader.readuntil(b"}}")
    assert server.violations[:1] == ["request 1: the body holds NaN, which is not JSON"]


async def test_in_an_outage_answers_break_off_and_nobody_is_let_in(
    server: ScriptedOpenAI, client: AsyncOpenAI
) -> None:
    server.script([hang(), text("back")])
    async with raw_request(server) as (reader, _):
        await server.wait_for_requests(1)
        outage = asyncio.create_task(server.outage(0.2))
        assert (await reader.read()).startswith(b"HTTP/1.1 200")  # up to the end: it is closed
    with pytest.raises(openai.APIConnectionError):
        await stream(client)
    await outage
    assert await stream(client)
