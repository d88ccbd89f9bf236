"""How long the model server itself takes: HTTP alone, no Perdure, no Temporal."""

import time
from statistics import median
from typing import Any

import httpx2

from bench.agents import echo
from bench.model import prompt

REQUESTS = 60


async def exchange_s(model_url: str, turns: int) -> float:
    """Return the median time of one streamed answer in the middle of such a Run."""
    body = {
        "model": "gpt-5-mini",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [echo.schema],
        "messages": _conversation(turns),
    }
    times: list[float] = []
    async with httpx2.AsyncClient() as client:
        for _ in range(REQUESTS):
            start_s = time.perf_counter()
            answer = await client.post(f"{model_url}/chat/completions", json=body)
            answer.raise_for_status()
            times.append(time.perf_counter() - start_s)
    return median(times)


def _conversation(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt(turns)}]
    for turn in range(turns // 2):
        function = {"name": "echo", "arguments": f'{{"text": "Entry {turn} of the log"}}'}
        call = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": echo("log")})
    return messages
