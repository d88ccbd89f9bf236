"""Messages, pauses, cancels and results that come together, read alike by everybody."""

import asyncio
from random import Random

import pytest

from perdure import Agent, Limits, tool
from perdure.runs import contract
from perdure.runs.contract import MessageRequest, PauseRequest, UnpauseRequest
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, call, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="clerk", tools=[look])


def heard(request: RecordedRequest) -> list[str]:
    """Return what the user says in a request, after the input."""
    return [m["content"] for m in request.messages if m["role"] == "user"][1:]


async def signal(engine: Engine, run_id: str, message: str, message_id: str) -> None:
    handle = engine.client.get_workflow_handle(run_id)
    request = MessageRequest(text=message, message_id=message_id)
    await handle.signal(contract.MESSAGE_SIGNAL, request)


async def test_a_message_that_waits_for_a_worker_is_taken_with_a_cancel_or_not_at_all(
    engine: Engine,
) -> None:
    """In the history the cancel stands before the message, or after it: both are read alike."""
    gates = [Gate() for _ in range(4)]
    for number, gate in enumerate(gates):
        engine.model.script([tool_calls(call("look", {"number": number})).hold(gate)])
        async with engine.serving(AGENT):
            run_id = await engine.start("clerk")
            await gate.reached
            await engine.manager.pause(run_id)
            gate.open()

            async def waits(run_id: str = run_id) -> bool:
                return (await engine.manager.get_run(run_id)).waiting_on is not None

            await soon(waits)
        handle = engine.client.get_workflow_handle(run_id)
        if number % 2:
            await signal(engine, run_id, "Before.", "before")
        if number < 2:
            await handle.cancel(reason="enough")
        else:
            await handle.signal(contract.CANCEL_SIGNAL, {"reason": "enough"})
        await signal(engine, run_id, "After.", "after")
        request = MessageRequest(text="Update.", message_id="update")
        update = asyncio.create_task(handle.execute_update(contract.SEND_MESSAGE_UPDATE, request))
        async with engine.serving(AGENT):
            run = await engine.ended(run_id)
            await asyncio.gather(update, return_exceptions=True)
        assert run.status is RunStatus.CANCELLED
        assert ("before" in [each.message_id for each in run.follow_ups]) == bool(number % 2)


@pytest.mark.parametrize("seed", range(6))
async def test_messages_pauses_and_results_may_race(engine: Engine, seed: int) -> None:
    """The fixture compares projection and query, whatever the order things arrived in."""
    random = Random(seed)  # noqa: S311 - moments, no secret
    plenty = Limits(max_turns=10_000, max_identical_calls=10_000)
    steered = asyncio.Event()

    def answer(request: RecordedRequest) -> Reply:
        if steered.is_set():
            return text("Done.")
        return tool_calls(*[call("look", {"number": n}) for n in range(random.randint(1, 3))])

    engine.model.respond_with(answer)

    async def steer(run_id: str, number: int) -> None:
        handle = engine.client.get_workflow_handle(run_id)
        said = MessageRequest(text=f"Message {number}.", message_id=f"m{number}")
        await engine.model.wait_for_requests(random.randint(1, 4), timeout_s=30)
        match number % 4:
            case 0:
                await handle.signal(contract.MESSAGE_SIGNAL, said)
            case 1:
                await handle.execute_update(contract.PAUSE_UPDATE, PauseRequest())
                await handle.execute_update(contract.UNPAUSE_UPDATE, UnpauseRequest())
            case _:
                await handle.execute_update(contract.SEND_MESSAGE_UPDATE, said)

    async with engine.serving(AGENT):
        run_id = await engine.start("clerk", limits=plenty)
        await asyncio.gather(*[steer(run_id, n) for n in range(8)])
        steered.set()
        run = await engine.ended(run_id)
    assert sorted(each.message_id for each in run.follow_ups) == [
        "m0",
        "m2",
        "m3",
        "m4",
        "m6",
        "m7",
    ]
    assert sorted(heard(engine.model.requests[-1])) == sorted(e.text for e in run.follow_ups)
