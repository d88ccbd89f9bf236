"""Pausing: what is in flight ends, nothing new starts; whatever else comes at the same time."""

import asyncio
from typing import Any

import pytest

from perdure import Agent, Limits, RunFilter, Timeouts, tool
from perdure.runs import contract
from perdure.runs.contract import PauseRequest, RaiseLimitsRequest, UnpauseRequest
from perdure.runs.errors import RunAlreadyTerminal
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="clerk", tools=[look])


async def waits_on(engine: Engine, run_id: str, what: str) -> None:
    """Wait until a Run waits for what is named."""

    async def waits() -> bool:
        waiting = (await engine.manager.get_run(run_id)).waiting_on
        return waiting is not None and waiting.type == what

    await soon(waits)


async def started_and_paused(engine: Engine, **options: Any) -> str:
    """Return a Run that was paused while its first model call was in flight, and waits."""
    gate = Gate()
    engine.model.script([tool_calls(call("look", {"number": 1})).hold(gate)])
    run_id = await engine.start("clerk", **options)
    await gate.reached
    run = await engine.manager.pause(run_id, "let me see")
    assert (run.pause_reason, run.waiting_on) == ("let me see", None)
    gate.open()
    await waits_on(engine, run_id, "pause")
    return run_id


async def test_a_paused_run_ends_what_is_in_flight_and_starts_nothing_until_it_may(
    engine: Engine,
) -> None:
    async with engine.serving(AGENT):
        run_id = await started_and_paused(engine)
        paused = await engine.manager.get_run(run_id)
        assert [(s.kind, s.status) for s in paused.steps] == [("model", "completed")]
        assert paused.waiting_on is not None
        assert paused.waiting_on.detail == "let me see"
        assert (await engine.queried(run_id)).waiting_on is not None

        async def listed() -> bool:
            found = await engine.manager.list_runs(RunFilter(waiting=True))
            return [r.waiting_on for r in found.runs if r.run_id == run_id] == ["pause"]

        await soon(listed)
        again = await engine.manager.pause(run_id, "another reason")
        assert again.pause_reason == "let me see"
        engine.model.script([text("Done.")])
        await engine.manager.unpause(run_id)
        run = await engine.ended(run_id)
        events = [event.type async for event in engine.manager.events(run_id)]
    assert (run.status, run.output, run.pause_reason) == ("completed", "Done.", None)
    steering = [e for e in events if "pause" in e]
    assert steering == [
        "run.pause_requested",
        "run.paused",
        "run.unpause_requested",
        "run.unpaused",
    ]


async def test_a_final_answer_waits_too_and_a_message_can_still_be_added(engine: Engine) -> None:
    gate, last = Gate(), Gate()
    engine.model.script([text("Hello.").hold(gate), text("Bye.").hold(last)])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.manager.pause(run_id)
        gate.open()
        await waits_on(engine, run_id, "pause")
        await engine.manager.send_message(run_id, "And now?")
        await engine.manager.unpause(run_id)
        await engine.manager.unpause(run_id)
        last.open()
        run = await engine.ended(run_id)
    assert run.output == "Bye."
    assert engine.model.requests[-1].messages[-1]["content"] == "And now?"


async def test_a_paused_run_can_be_cancelled_and_resumed_and_is_not_paused_then(
    engine: Engine,
) -> None:
    async with engine.serving(AGENT):
        run_id = await started_and_paused(engine)
        await engine.manager.cancel(run_id, "enough")
        run = await engine.ended(run_id)
        assert (run.status, run.tool_calls[0].status) == (RunStatus.CANCELLED, "cancelled")
        for change in (engine.manager.pause(run_id), engine.manager.unpause(run_id)):
            with pytest.raises(RunAlreadyTerminal):
                await change
        engine.model.script([text("Done.")])
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert (run.output, run.tool_calls[0].result) == ("Done.", "10")


async def test_the_time_of_a_paused_run_goes_on(engine: Engine) -> None:
    async with engine.serving(AGENT):
        run_id = await started_and_paused(engine, timeouts=Timeouts(run_s=5))
        run = await engine.ended(run_id)
    assert run.status is RunStatus.TIMEOUT


async def test_a_run_that_stops_is_not_paused(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Slow.").hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.manager.cancel(run_id, mode="after_step")
        with pytest.raises(RunAlreadyTerminal, match="being stopped"):
            await engine.manager.pause(run_id)
        gate.open()
        assert (await engine.ended(run_id)).status is RunStatus.CANCELLED


async def test_a_run_at_a_limit_that_is_paused_needs_both_to_go_on(engine: Engine) -> None:
    engine.model.script([tool_calls(call("look", {"number": 1})), text("Done.")])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk", limits=Limits(max_turns=1), on_limit="pause")
        await waits_on(engine, run_id, "limit")
        await engine.manager.pause(run_id)
        await waits_on(engine, run_id, "pause")
        await engine.manager.unpause(run_id)
        await waits_on(engine, run_id, "limit")
        await engine.manager.pause(run_id)
        raised = await engine.manager.raise_limits(run_id, Limits(max_turns=2))
        assert raised.waiting_on is not None
        assert raised.waiting_on.type == "pause"
        await engine.manager.unpause(run_id)
        run = await engine.ended(run_id)
    assert run.output == "Done."


async def test_a_paused_run_stays_so_when_its_worker_is_replaced(engine: Engine) -> None:
    async with engine.serving(AGENT):
        run_id = await started_and_paused(engine)
    async with engine.serving(AGENT):
        assert (await engine.queried(run_id)).pause_reason == "let me see"
        engine.model.script([text("Done.")])
        await engine.manager.unpause(run_id)
        run = await engine.ended(run_id)
    assert run.output == "Done."


TOLD = {
    "unpause": (contract.UNPAUSE_UPDATE, UnpauseRequest()),
    "pause": (contract.PAUSE_UPDATE, PauseRequest(reason="twice")),
    "limits": (contract.RAISE_LIMITS_UPDATE, RaiseLimitsRequest(limits=Limits(max_turns=9))),
}


@pytest.mark.parametrize("by_signal", [False, True])
@pytest.mark.parametrize(
    "told", [["unpause"], ["unpause", "pause"], ["limits", "unpause"], ["unpause", "limits"]]
)
async def test_a_cancel_that_comes_together_with_what_lets_a_run_go_on_wins(
    engine: Engine, told: list[str], by_signal: bool
) -> None:
    """Both wait for a worker, so that one workflow task holds them."""
    options = {"limits": Limits(max_turns=1), "on_limit": "pause"} if "limits" in told else {}
    async with engine.serving(AGENT):
        run_id = await started_and_paused(engine, **options)
    handle = engine.client.get_workflow_handle(run_id)
    asked = [asyncio.create_task(handle.execute_update(*TOLD[each])) for each in told]

    async def is_waited_for() -> bool:
        """Tell whether the server has a task for the updates."""
        described = (await handle.describe()).raw_description
        return described.HasField("pending_workflow_task")

    await soon(is_waited_for)
    if by_signal:
        await handle.signal(contract.CANCEL_SIGNAL, {"reason": "enough"})
    else:
        await handle.cancel(reason="enough")
    async with engine.serving(AGENT):
        run = await engine.ended(run_id)
        await asyncio.gather(*asked, return_exceptions=True)
    assert run.status is RunStatus.CANCELLED
    assert [step.kind for step in run.steps] == ["model"]
