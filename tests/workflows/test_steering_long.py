"""Steering over continue-as-new: on a server that asks for it every few turns."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Agent, tool
from perdure.engine.dev_server import DYNAMIC_CONFIG
from perdure.runs import contract
from perdure.runs.contract import MessageRequest
from tests.conftest import served_apart
from tests.harness.engine import Engine, without_times
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, ScriptedOpenAI, call, text
from tests.harness.scripted_openai import tool_calls as calling

TURNS = 40
SHORT = DYNAMIC_CONFIG | {"limit.historyCount.suggestContinueAsNew": 100}


@pytest.fixture
async def short(tmp_path: Path, model: ScriptedOpenAI) -> AsyncIterator[Engine]:
    """Everything a Run needs, on a server of short histories."""
    async with served_apart(tmp_path, model, SHORT) as engine:
        yield engine


@tool(effect="read")
def note(number: int) -> str:
    """Note a number."""
    return f"noted {number}"


def heard(request: RecordedRequest) -> list[str]:
    """Return what the user says in a request, after the input."""
    return [m["content"] for m in request.messages if m["role"] == "user"][1:]


async def test_no_message_is_lost_where_a_run_continues_as_new(short: Engine) -> None:
    asked = asyncio.Queue[tuple[int, Gate]]()

    def answer(request: RecordedRequest) -> Reply:
        said = sum(message["role"] == "assistant" for message in request.messages)
        if said == TURNS:
            return text("Done.")
        asked.put_nowait((said, gate := Gate()))
        return calling(call("note", {"number": said})).hold(gate)

    short.model.respond_with(answer)
    manager, sent = short.manager, []
    async with short.serving(Agent(name="clerk", tools=[note])):
        run_id = await short.start("clerk")
        handle = short.client.get_workflow_handle(run_id)
        for _ in range(TURNS):
            turn, gate = await asked.get()
            said = MessageRequest(text=f"Message {turn}.", message_id=f"m{turn}")
            if turn % 2:
                await handle.signal(contract.MESSAGE_SIGNAL, said)
            else:
                await manager.send_message(run_id, said.text, message_id=said.message_id)
            # The ids that earlier executions know are known.
            await manager.send_message(run_id, "Message 0.", message_id="m0")
            sent.append(said.text)
            if turn % 5 == 0:
                await manager.pause(run_id)
                gate.open()
                await manager.unpause(run_id)
            gate.open()
        run = await short.ended(run_id)
        executions = await short.histories(run_id)
        whole = await short.projected_from_start(run_id)
    assert len(executions) > 2
    assert [each.text for each in run.follow_ups] == sent
    assert heard(short.model.requests[-1]) == sent
    assert run.pause_reason is None
    assert without_times(whole) == without_times(run)
