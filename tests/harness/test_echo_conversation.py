"""The conversation that the server plays as a program, for benchmarks."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from tests.harness.scripted_openai import (
    RecordedRequest,
    call,
    echo_conversation,
    text,
    tool_calls,
)

ROOT = Path(__file__).parents[2]
ASK: list[Any] = [{"role": "user", "content": "Go on."}]


async def test_as_a_program_it_plays_the_same_conversation_to_everyone() -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.harness.scripted_openai"),
        *("--turns", "2", "--result-bytes", "10"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    base_url = json.loads(await program.stdout.readline())["base_url"]
    async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
        said = await asyncio.gather(*(play(client) for _ in range(3)))
    program.terminate()
    assert await program.wait() == 0
    turns = ['{"text": "0 xxxxxxxx"}', '{"text": "1 xxxxxxxx"}']
    assert said == [[*turns, "Done after 2 turns."]] * 3


async def play(client: AsyncOpenAI) -> list[str]:
    """Answer every tool call and return what the model said."""
    messages = list(ASK)
    said: list[str] = []
    while True:
        reply = await client.chat.completions.create(model="m", messages=messages)
        message = reply.choices[0].message
        messages.append(message.to_dict())
        if not message.tool_calls:
            return [*said, message.content or ""]
        for item in message.tool_calls:
            assert item.type == "function"
            said.append(item.function.arguments)
            messages.append({"role": "tool", "tool_call_id": item.id, "content": "ok"})


def test_the_echo_conversation_can_have_any_size() -> None:
    request = RecordedRequest(0, "POST", "/", {}, b"", {"messages": ASK}, 0.0)
    assert echo_conversation(0, 5)(request) == text("Done after 0 turns.")
    assert echo_conversation(1, 1)(request) == tool_calls(call("echo", {"text": "0"}))
