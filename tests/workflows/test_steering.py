"""Messages to a Run that goes on: when they are heard, when refused, and that none is lost."""

import asyncio
from random import Random

import pytest

from perdure import Agent, Limits, tool
from perdure.activities.transcripts import Transcripts
from perdure.runs import contract
from perdure.runs.contract import MessageRequest
from perdure.runs.errors import ErrorCode, InvalidRequest, PerdureError, RunAlreadyTerminal
from perdure.runs.limits import MAX_MESSAGE_BYTES
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    call,
    status,
    text,
    tool_calls,
)


class Door:
    """Keeps a tool inside until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def agent(door: Door) -> Agent:
    @tool(effect="read")
    def look(number: int) -> int:
        """Look something up."""
        return number * 10

    @tool(effect="read")
    async def stay(number: int) -> int:
        """Stay for a while."""
        door.entered.set()
        await door.open.wait()
        return number

    return Agent(name="clerk", tools=[look, stay], fallback_models=["other-model"])


def heard(request: RecordedRequest) -> list[str]:
    """Return what the user says in a request, after the input."""
    return [m["content"] for m in request.messages if m["role"] == "user"][1:]


def roles(request: RecordedRequest) -> list[str]:
    return [message["role"] for message in request.messages]


async def signal(engine: Engine, run_id: str, message: str, message_id: str) -> None:
    handle = engine.client.get_workflow_handle(run_id)
    request = MessageRequest(text=message, message_id=message_id)
    await handle.signal(contract.MESSAGE_SIGNAL, request)


@pytest.mark.parametrize("remembered", [Transcripts(), Transcripts(max_bytes=0)])
async def test_what_is_said_during_a_model_call_comes_after_its_answer_and_results(
    engine: Engine, agent: Agent, remembered: Transcripts
) -> None:
    gate = Gate()
    engine.transcripts = remembered
    engine.model.script([tool_calls(call("look", {"number": 1})).hold(gate), text("Done.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        told = await engine.manager.send_message(run_id, "Be quick\ud800.", message_id="one")
        gate.open()
        run = await engine.ended(run_id)
        events = [event.type async for event in engine.manager.events(run_id)]
    assert [(f.message_id, f.text, f.after_step) for f in told.follow_ups] == [
        ("one", "Be quick\ufffd.", 1)
    ]
    assert roles(engine.model.requests[1]) == ["user", "assistant", "tool", "user"]
    assert heard(engine.model.requests[1]) == ["Be quick\ufffd."]
    assert run.output == "Done."
    assert events.count("run.message.accepted") == 1


async def test_what_is_said_during_a_final_answer_is_answered_too(
    engine: Engine, agent: Agent
) -> None:
    gate = Gate()
    engine.model.script([text("Hello.").hold(gate), text("Bye.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.manager.send_message(run_id, "First.")
        await signal(engine, run_id, "Second.", "two")
        await engine.manager.send_message(run_id, "Third.")
        gate.open()
        run = await engine.ended(run_id)
    assert heard(engine.model.requests[1]) == ["First.", "Second.", "Third."]
    assert (run.output, run.turn) == ("Bye.", 2)


async def test_what_is_said_during_tools_comes_after_their_results(
    engine: Engine, agent: Agent, door: Door
) -> None:
    calls = tool_calls(call("look", {"number": 1}), call("stay", {"number": 2}))
    engine.model.script([calls, text("Done.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await door.entered.wait()
        await engine.manager.send_message(run_id, "Hurry.")
        door.open.set()
        await engine.ended(run_id)
    assert roles(engine.model.requests[1]) == ["user", "assistant", "tool", "tool", "user"]


async def test_a_message_that_is_sent_twice_is_heard_once_also_after_the_end(
    engine: Engine, agent: Agent
) -> None:
    gate = Gate()
    engine.model.script([text("Hello.").hold(gate), text("Bye.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        same = [engine.manager.send_message(run_id, "Hi.", message_id="m-1") for _ in range(5)]
        await asyncio.gather(*same)
        await signal(engine, run_id, "Hi.", "m-1")
        with pytest.raises(InvalidRequest, match="another message"):
            await engine.manager.send_message(run_id, "Ho.", message_id="m-1")
        gate.open()
        run = await engine.ended(run_id)
        assert await engine.manager.send_message(run_id, "Hi.", message_id="m-1") == run
    assert heard(engine.model.requests[1]) == ["Hi."]
    assert len(run.follow_ups) == 1


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_a_run_that_stops_or_has_ended_takes_no_message(
    engine: Engine, agent: Agent, door: Door, mode: str
) -> None:
    engine.model.script([tool_calls(call("stay", {"number": 1}))])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await door.entered.wait()
        await engine.manager.cancel(run_id, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(RunAlreadyTerminal):
            await engine.manager.send_message(run_id, "Wait!")
        if mode == "after_step":
            await signal(engine, run_id, "Wait!", "too-late")
        door.open.set()
        run = await engine.ended(run_id)
        with pytest.raises(RunAlreadyTerminal) as refused:
            await engine.manager.send_message(run_id, "Still there?")
    assert "resume" in refused.value.hint
    assert (run.status, run.follow_ups) == (RunStatus.CANCELLED, ())


async def test_a_message_that_can_not_be_taken_is_refused(engine: Engine, agent: Agent) -> None:
    gate = Gate()
    engine.model.script([text("Hello.").hold(gate)])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        for given, code in (
            (" \n", ErrorCode.PROVIDER_REFUSED_REQUEST),
            ("x" * (MAX_MESSAGE_BYTES + 1), ErrorCode.PAYLOAD_TOO_LARGE),
        ):
            with pytest.raises(PerdureError) as refused:
                await engine.manager.send_message(run_id, given)
            assert refused.value.code is code
            # Whoever asks the workflow itself gets no further.
            await signal(engine, run_id, given, "signalled")
        handle = engine.client.get_workflow_handle(run_id)
        await handle.signal(contract.MESSAGE_SIGNAL, {"nonsense": True})
        await handle.signal(contract.CANCEL_SIGNAL, {"mode": "sometime"})
        gate.open()
        run = await engine.ended(run_id)
    assert (run.status, run.follow_ups) == (RunStatus.COMPLETED, ())


@pytest.mark.parametrize("remembered", [Transcripts(), Transcripts(max_bytes=0)])
async def test_the_largest_message_goes_through_and_is_no_part_of_the_call_in_flight(
    engine: Engine, agent: Agent, remembered: Transcripts
) -> None:
    """Large messages are read from the workflow: by an attempt, too, that comes after others."""
    random = Random(1)  # noqa: S311 - incompressible, no secret
    gate = Gate()
    large = random.randbytes(MAX_MESSAGE_BYTES // 2).hex()
    engine.transcripts = remembered
    engine.model.script([text("A.").hold(gate), status(503, headers={"retry-after": "2"})])
    engine.model.script([text("B."), text("C.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.manager.send_message(run_id, large)
        gate.open()
        await engine.model.wait_for_requests(2, timeout_s=20)
        await engine.manager.send_message(run_id, large[::-1])
        run = await engine.ended(run_id)
    assert run.steps[1].attempt == 2
    assert [heard(each) for each in engine.model.requests[1:]] == [
        [large],
        [large],
        [large, large[::-1]],
    ]


async def test_a_message_at_a_limit_waits_with_the_run(engine: Engine, agent: Agent) -> None:
    engine.model.script([tool_calls(call("look", {"number": 1})), text("Done.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk", limits=Limits(max_turns=1), on_limit="pause")

        async def waits() -> bool:
            return (await engine.manager.get_run(run_id)).waiting_on is not None

        await soon(waits)
        told = await engine.manager.send_message(run_id, "Go on.")
        assert told.waiting_on is not None
        await engine.manager.raise_limits(run_id, Limits(max_turns=2))
        await engine.ended(run_id)
    assert heard(engine.model.requests[1]) == ["Go on."]


async def test_a_run_that_concludes_at_a_limit_hears_what_came_before_and_takes_no_more(
    engine: Engine, agent: Agent
) -> None:
    gates = [Gate(), Gate()]
    engine.model.script([text("Hello.").hold(gates[0]), text("So far.").hold(gates[1])])
    async with engine.serving(agent):
        run_id = await engine.start("clerk", limits=Limits(max_turns=1), on_limit="finalize")
        await gates[0].reached
        await engine.manager.send_message(run_id, "And?")
        gates[0].open()
        await gates[1].reached
        with pytest.raises(RunAlreadyTerminal, match="concludes"):
            await engine.manager.send_message(run_id, "And then?")
        await signal(engine, run_id, "And then?", "too-late")
        gates[1].open()
        run = await engine.ended(run_id)
    assert (run.status, run.output, run.stop_reason) == ("completed", "So far.", "max_turns")
    assert [each.text for each in run.follow_ups] == ["And?"]
    assert heard(engine.model.requests[1])[0] == "And?"


async def test_a_message_outlives_the_worker_that_took_it(engine: Engine, agent: Agent) -> None:
    gate = Gate()
    engine.model.script([text("Lost.").hold(gate), text("Hello."), text("Bye.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.manager.send_message(run_id, "Still there?")
    engine.transcripts = Transcripts()
    async with engine.serving(agent):
        gate.open()
        run = await engine.ended(run_id)
    assert heard(engine.model.requests[-1]) == ["Still there?"]
    assert run.steps[-1].status == "completed"
