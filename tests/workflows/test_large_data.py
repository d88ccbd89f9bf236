"""Large inputs, results and transcripts: whole where it matters, and never in the history."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from perdure import Agent, tool
from perdure.activities.transcripts import Transcripts
from perdure.runs.errors import CallNotFound, ErrorCode, InvalidRequest
from perdure.runs.limits import MAX_FULL_RESULT_BYTES, MAX_INPUT_BYTES, MAX_RESULT_BYTES
from perdure.runs.messages import AssistantMessage, Message, UserMessage
from perdure.runs.start import ContextBundle
from perdure.runs.status import RunStatus
from tests.engine.noise import noise
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, call, text, tool_calls

MAX_EVENT_BYTES = 256_000
MB = 1_000_000


@tool(effect="read")
def produce(size: int, seed: int = 1) -> str:
    """Produce so many bytes."""
    return noise(size, seed)


@tool(effect="read")
def repeat(text: str, times: int) -> list[str]:
    """Repeat a text."""
    return [text] * times


AGENT = Agent(context_window=10_000_000, name="packer", tools=[produce, repeat])


def using(name: str, arguments: Mapping[str, Any]) -> list[Reply]:
    return [tool_calls(call(name, arguments, id="a")), text("Done.")]


async def events_of(engine: Engine, run_id: str) -> list[HistoryEvent]:
    """Return the raw history of the latest execution, checked for its sizes."""
    handle = engine.client.get_workflow_handle(run_id)
    events = [event async for event in handle.fetch_history_events()]
    assert max(event.ByteSize() for event in events) < MAX_EVENT_BYTES
    failed = [e for e in events if e.HasField("workflow_task_failed_event_attributes")]
    assert failed == []
    return events


def conversation(size: int) -> ContextBundle:
    """Return a context of so many bytes, in messages of 10 KB."""
    messages: list[Message] = []
    for number in range(size // 20_000):
        messages.append(UserMessage(content=noise(10_000, 2 * number)))
        messages.append(AssistantMessage(content=noise(10_000, 2 * number + 1)))
    return ContextBundle(messages=tuple(messages))


@pytest.mark.parametrize("said", [noise(3 * MB), "😀" * (3 * MB // 4), "a\0b\n" * (MB // 4)])
async def test_an_input_of_3_mb_reaches_the_model_whole(engine: Engine, said: str) -> None:
    engine.model.script([text("Read.")])
    async with engine.serving(AGENT):
        run = await engine.run("packer", said)
        await events_of(engine, run.run_id)
    assert (run.status, run.input_message) == (RunStatus.COMPLETED, said)
    assert engine.model.requests[0].messages[-1]["content"] == said


async def test_large_context_and_variables_reach_model_and_tools_whole(engine: Engine) -> None:
    given = conversation(MB).model_copy(update={"variables": {"table": noise(2 * MB)}})
    engine.model.script(using("produce", {"size": 100}))
    async with engine.serving(AGENT):
        run = await engine.run("packer", context=given)
        await events_of(engine, run.run_id)
    seen = engine.model.requests
    assert run.status is RunStatus.COMPLETED
    assert run.context == given
    assert [m["content"] for m in seen[1].messages[:-3]] == [
        getattr(m, "content", None) for m in given.messages
    ]


async def test_the_largest_input_starts_and_one_byte_more_is_refused(engine: Engine) -> None:
    engine.model.script([text("Read.")])
    async with engine.serving(AGENT):
        with pytest.raises(InvalidRequest) as refused:
            await engine.start("packer", "é" * (MAX_INPUT_BYTES // 2))
        bare = int(str(refused.value).split()[6].replace(",", "")) - MAX_INPUT_BYTES
        largest = "é" * ((MAX_INPUT_BYTES - bare) // 2)
        run = await engine.run("packer", largest)
    assert refused.value.code is ErrorCode.PAYLOAD_TOO_LARGE
    assert run.output == "Read."
    assert len(engine.model.requests) == 1


@pytest.mark.parametrize("size", [70_000, 2 * MB, 10 * MB])
async def test_the_model_sees_a_large_result_cut_and_the_whole_is_kept(
    engine: Engine, size: int
) -> None:
    engine.model.script(using("produce", {"size": size}))
    async with engine.serving(AGENT):
        run = await engine.run("packer")
        events = await events_of(engine, run.run_id)
    told = engine.model.requests[1].messages[-1]["content"]
    assert len(told.encode()) < MAX_RESULT_BYTES + 500
    assert f"of {size} bytes left out" in told
    assert f"perdure result {run.run_id} 2" in told
    assert run.tool_calls[0].result == told
    assert await engine.manager.result(run.run_id, "a") == noise(size)
    assert await engine.manager.result(run.run_id, "2") == noise(size)
    assert sum(event.ByteSize() for event in events) < 2 * MAX_RESULT_BYTES


async def test_a_result_that_is_not_cut_is_its_own_whole(engine: Engine) -> None:
    engine.model.script(using("repeat", {"text": "é", "times": 2}))
    async with engine.serving(AGENT):
        run = await engine.run("packer")
    assert run.tool_calls[0].full is None
    assert await engine.manager.result(run.run_id, "a") == '["é","é"]'
    with pytest.raises(CallNotFound, match="no tool call 'b'"):
        await engine.manager.result(run.run_id, "b")


async def test_a_result_that_is_not_there_yet_is_said_to_be_so(engine: Engine) -> None:
    started, released = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await released.wait()
        return "late"

    engine.model.script(using("wait", {}))
    async with engine.serving(Agent(name="waiter", tools=[wait])):
        run_id = await engine.start("waiter")
        await asyncio.wait_for(started.wait(), 20)
        with pytest.raises(InvalidRequest, match="running"):
            await engine.manager.result(run_id, "a")
        released.set()
        await engine.ended(run_id)
    assert await engine.manager.result(run_id, "a") == "late"


async def test_a_result_beyond_the_hard_limit_fails_the_call_and_not_the_run(
    engine: Engine,
) -> None:
    engine.model.script(
        using("repeat", {"text": "x" * 1024, "times": MAX_FULL_RESULT_BYTES // 1024})
    )
    async with engine.serving(AGENT):
        run = await engine.run("packer")
    [asked] = run.tool_calls
    assert run.status is RunStatus.COMPLETED
    assert asked.error is not None
    assert asked.error.code is ErrorCode.RESULT_TOO_LARGE
    assert "result_too_large" in engine.model.requests[1].messages[-1]["content"]


async def test_a_large_result_on_a_large_transcript_completes(engine: Engine) -> None:
    """Case TMPR-04: 1.3 MB on top of 1 MB."""
    engine.model.script(using("produce", {"size": 1_300_000}))
    async with engine.serving(AGENT):
        run = await engine.run("packer", context=conversation(MB))
        await events_of(engine, run.run_id)
    assert run.status is RunStatus.COMPLETED
    assert await engine.manager.result(run.run_id, "a") == noise(1_300_000)


async def test_one_large_message_is_paged_out_to_a_worker_that_does_not_have_it(
    engine: Engine,
) -> None:
    engine.transcripts = Transcripts(max_bytes=1000)
    engine.model.script(using("produce", {"size": 100}))
    async with engine.serving(AGENT):
        run = await engine.run("packer", noise(3 * MB))
    assert run.status is RunStatus.COMPLETED
    assert engine.transcripts.misses == 1
    assert engine.model.requests[1].messages[0]["content"] == noise(3 * MB)


async def test_a_hundred_turns_of_5_kb_on_a_long_conversation_stay_linear(
    engine: Engine,
) -> None:
    """Case TMPR-06, the half of it."""

    def reply(request: RecordedRequest) -> Reply:
        turn = sum(message["role"] == "tool" for message in request.messages)
        return (
            tool_calls(call("produce", {"size": 5000, "seed": turn}))
            if turn < 99
            else text("Done.")
        )

    engine.model.respond_with(reply)
    async with engine.serving(AGENT):
        run = await engine.run("packer", context=conversation(400_000))
        sizes = [event.ByteSize() for event in await events_of(engine, run.run_id)]
    half, later = sum(sizes[: len(sizes) // 2]), sum(sizes[len(sizes) // 2 :])
    assert run.status is RunStatus.COMPLETED
    # The conversation itself is stored outside: what is left is the turns, all alike.
    assert later < 1.1 * half
    assert half + later < 1.5 * MB


async def test_a_run_that_carries_more_than_temporal_takes_continues_as_new(
    engine: Engine,
) -> None:
    def reply(request: RecordedRequest) -> Reply:
        turn = sum(message["role"] == "tool" for message in request.messages)
        return (
            tool_calls(call("produce", {"size": 10}, id=f"c{turn}")) if turn < 40 else text("Done.")
        )

    # Variables go along with every tool call: they fill the history, and soon.
    variables = {"table": noise(230_000)}
    given = conversation(3 * MB).model_copy(update={"variables": variables})
    engine.model.respond_with(reply)
    async with engine.serving(AGENT):
        run = await engine.run("packer", context=given)
        await events_of(engine, run.run_id)
        handle = engine.client.get_workflow_handle(run.run_id)
        info = (await handle.describe()).raw_description.workflow_execution_info
    assert info.first_run_id != info.execution.run_id, "it never continued as new"
    assert (run.status, run.turn, run.context) == (RunStatus.COMPLETED, 41, given)
    assert len(engine.model.requests[-1].messages) == len(given.messages) + 1 + 2 * 40


async def test_a_large_answer_streams_and_is_kept_whole(engine: Engine) -> None:
    said = noise(500_000)
    gate = Gate()
    engine.model.script([text(said[:400_000], said[400_000:]).hold(gate, before_chunk=2)])

    async def is_shown() -> bool:
        pending = await engine.manager.pending_steps(run_id)
        return bool(pending) and len(pending[0].partial_text) == 400_000

    async with engine.serving(AGENT):
        run_id = await engine.start("packer")
        await soon(is_shown)
        gate.open()
        run = await engine.ended(run_id)
        await events_of(engine, run_id)
    assert run.output == said
