"""The real model, in a process of its own, asked over HTTP as a provider would be."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure.engine.local_model.weights import LocalModelUnavailable, find_weights

pytestmark = pytest.mark.timeout(400)
"""A call takes 2 s on an idle machine, and 40 s on one that is busy with other tests."""

KEY = "key-of-the-test"
START_S = 120.0
"""Joining and loading take 5 s on an idle machine."""
CALCULATE = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "Calculate the value of an arithmetic expression.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
            "additionalProperties": False,
        },
    },
}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "You answer questions. Use the tools for arithmetic."},
    {"role": "user", "content": "What is 37 * 43 + 12?"},
]


@dataclass(frozen=True)
class Local:
    """A running server."""

    process: subprocess.Popen[bytes]
    base_url: str
    model: str

    def client(self, key: str = KEY) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.AsyncClient(base_url=self.base_url, headers=headers, timeout=100.0)

    async def ask(self, **request: object) -> dict[str, Any]:
        async with self.client() as client:
            response = await client.post("/chat/completions", json={"model": self.model, **request})
        reply: dict[str, Any] = response.json()
        assert response.status_code == 200, reply
        return reply


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Start the server once; stopping it by the end of its stdin is part of the test."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs a real model: package 'xllamacpp' is not installed (perdure[local])")
    try:
        find_weights()
    except LocalModelUnavailable as error:
        pytest.skip(f"needs a real model: {error}")
    ready = tmp_path_factory.mktemp("local") / "ready.json"
    command = [sys.executable, "-m", "perdure.engine.local_model.server", "--api-key", KEY]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--ready-file", str(ready), "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
    )
    try:
        ends_at = time.monotonic() + START_S
        while not ready.exists():
            assert process.poll() is None, "the server has stopped"
            assert time.monotonic() < ends_at, "the server is not ready"
            time.sleep(0.05)
        told = json.loads(ready.read_text())
        yield Local(process, told["base_url"], told["model"])
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=15) == 0
    finally:
        process.kill()
        process.wait()


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream, and expect it to end as it should."""
    line = ""
    async for line in response.aiter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
        elif line:
            assert line == "data: [DONE]"


async def test_the_model_calls_the_tool_and_answers_from_its_result(local: Local) -> None:
    called = await local.ask(messages=CONVERSATION, tools=[CALCULATE])
    choice = called["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "calculate"
    expression = json.loads(call["function"]["arguments"])["expression"]
    assert expression.replace(" ", "") == "37*43+12"
    assert called["usage"]["prompt_tokens"] > called["usage"]["completion_tokens"] > 0

    result = {"role": "tool", "tool_call_id": call["id"], "content": "1603"}
    messages = [*CONVERSATION, choice["message"], result]
    answered = (await local.ask(messages=messages, tools=[CALCULATE]))["choices"][0]
    assert answered["finish_reason"] == "stop"
    assert "1603" in answered["message"]["content"]
    assert "tool_calls" not in answered["message"]


async def test_a_stream_holds_the_same_call_in_chunks(local: Local) -> None:
    request = {
        "model": local.model,
        "messages": CONVERSATION,
        "tools": [CALCULATE],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with (
        local.client() as client,
        client.stream("POST", "/chat/completions", json=request) as response,
    ):
        chunks = [chunk async for chunk in events(response)]
    *spoken, last = chunks
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > 0
    deltas = [chunk["choices"][0]["delta"] for chunk in spoken]
    assert deltas[0]["role"] == "assistant"
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert calls[0]["function"]["name"] == "calculate"
    arguments = "".join(call["function"]["arguments"] for call in calls)
    assert json.loads(arguments)["expression"].replace(" ", "") == "37*43+12"
    assert spoken[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_text_arrives_token_by_token(local: Local) -> None:
    request = {
        "model": local.model,
        "messages": [{"role": "user", "content": "Count from one to five in words."}],
        "stream": True,
    }
    async with (
        local.client() as client,
        client.stream("POST", "/chat/completions", json=request) as response,
    ):
        chunks = [chunk async for chunk in events(response)]
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert len(texts) > 5
    assert "three" in "".join(texts).lower()


async def test_the_same_request_gets_the_same_reply(local: Local) -> None:
    replies = [await local.ask(messages=CONVERSATION, tools=[CALCULATE]) for _ in range(2)]
    first, second = (reply["choices"][0]["message"]["tool_calls"][0] for reply in replies)
    assert first["function"] == second["function"]


async def test_a_client_that_leaves_stops_the_generation(local: Local) -> None:
    long = [{"role": "user", "content": "Write a very long story about a lighthouse."}]
    request = {"model": local.model, "messages": long, "max_tokens": 4000, "stream": True}
    async with (
        local.client() as client,
        client.stream("POST", "/chat/completions", json=request) as response,
    ):
        async for _ in events(response):
            break
    async with local.client() as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.post("/chat/completions", json=request | {"stream": False}, timeout=1.0)
    # One reply at a time: 4,000 tokens of either would hold this one up for minutes.
    short = [{"role": "user", "content": "Say hi."}]
    assert (await local.ask(messages=short, max_tokens=3))["usage"]["completion_tokens"] <= 3


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"model": "gpt-none"}, 404, "model_not_found"),
        ({"messages": []}, 400, None),
        (
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            400,
            "context_length_exceeded",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_openais_form(
    local: Local, change: dict[str, object], status: int, code: str | None, stream: bool
) -> None:
    request = {"model": local.model, "messages": CONVERSATION, "stream": stream, **change}
    async with local.client() as client:
        response = await client.post("/chat/completions", json=request)
    assert response.status_code == status
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", code)


async def test_a_wrong_key_is_refused(local: Local) -> None:
    async with local.client("wrong") as client:
        assert (await client.get("/models")).status_code == 401
    async with local.client() as client:
        models = (await client.get("/models")).json()["data"]
    assert [model["id"] for model in models] == [local.model]
