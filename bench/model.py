"""The model of the benchmark: answers at once, and plays as many turns as it is asked to.

A process of its own, so that its work is not done on the worker's time. The first user message
says how many turns the conversation has; nothing is remembered between requests.
"""

import asyncio
import json
import signal
import sys

from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, call, text, tool_calls
from tests.harness.scripted_openai import ScriptedOpenAI


def prompt(turns: int) -> str:
    """Return the input of a Run that has `turns` turns."""
    return f"Keep the log for {turns} turns."


def answer(request: RecordedRequest) -> Reply:
    """Call `echo` in every turn but the last, which is text."""
    asked = next(m["content"] for m in request.messages if m["role"] == "user")
    turns = int(asked.split()[-2])
    turn = 1 + sum(message["role"] == "assistant" for message in request.messages)
    if turn >= turns:
        return text(f"The log is kept, after {turn} turns.")
    return tool_calls(call("echo", {"text": f"Entry {turn} of the log"}))


async def serve() -> None:
    """Serve until SIGTERM; the first line of standard output is the address, as JSON."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with ScriptedOpenAI(record=False) as server:
        server.respond_with(answer)
        sys.stdout.write(json.dumps({"base_url": server.base_url}) + "\n")
        sys.stdout.flush()
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(serve())
