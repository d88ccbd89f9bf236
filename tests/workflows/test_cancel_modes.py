"""Cancelling: each mode, before the start, in a back-off, twice, after the end; the receipt."""

import asyncio

import pytest

from perdure import Agent, tool
from perdure.runs.contract import RunRequest
from perdure.runs.events import CancelMode
from perdure.runs.start import RunStart
from perdure.runs.status import RunStatus, StopReason
from perdure.workflows.run import RunWorkflow
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls


@tool(effect="read")
def look(number: int) -> int:
    """Look something up."""
    return number * 10


AGENT = Agent(name="clerk", tools=[look])


async def test_now_aborts_the_model_and_the_receipt_says_so(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")
        await gate.reached

        async def said() -> bool:
            return any(s.partial_text for s in await engine.manager.pending_steps(run_id))

        await soon(said)
        asked = await engine.manager.cancel(run_id, "enough")
        assert asked.cancel is not None
        run = await engine.ended(run_id)
        described = await engine.client.get_workflow_handle(run_id).describe()
    assert run.cancel is not None
    assert (run.cancel.mode, run.cancel.reason, run.cancel.by) == ("now", "enough", "user")
    assert run.cancel.partial_output_chars == len("Half ")
    assert run.cancel.model_aborted_after_ms is not None
    assert (run.steps[0].status, run.steps[0].text) == ("cancelled", "Half ")
    assert described.status is not None
    assert described.status.name == "CANCELED"
    async with asyncio.timeout(10):
        await engine.model.requests[0].disconnected.wait()


async def test_after_step_lets_what_is_in_flight_end(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([tool_calls(call("look", {"number": 1})).hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")
        await gate.reached
        asked = await engine.manager.cancel(run_id, "later", mode="after_step")
        assert asked.cancel is not None
        gate.open()
        run = await engine.ended(run_id)
    assert (run.status, run.stop_reason) == (RunStatus.CANCELLED, StopReason.USER_CANCEL)
    assert [step.status for step in run.steps] == ["completed"]
    assert run.cancel is not None
    assert (run.cancel.mode, run.cancel.model_aborted_after_ms) == ("after_step", None)


async def test_after_step_can_be_made_urgent_and_urgent_stays_so(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("slow").hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")
        await gate.reached
        for mode in ("after_step", "after_step", "rollback", "after_step"):
            await engine.manager.cancel(run_id, mode, mode=mode)  # type: ignore[arg-type]
        run = await engine.ended(run_id)
        events = [event.type async for event in engine.manager.events(run_id)]
    assert run.cancel is not None
    assert (run.cancel.mode, run.cancel.reason) == ("rollback", "after_step")
    assert events.count("run.cancel_requested") == 2
    assert run.steps[0].status == "cancelled"


@pytest.mark.parametrize("mode", ["now", "after_step", "rollback"])
async def test_a_run_that_nobody_has_picked_up_ends_as_soon_as_somebody_does(
    engine: Engine, mode: CancelMode
) -> None:
    start = RunRequest(start=RunStart(agent="clerk", input="Go."))
    run_id = f"unattended-{engine.task_queue}-{mode}"
    await engine.client.start_workflow(
        RunWorkflow.run, start, id=run_id, task_queue=engine.task_queue
    )
    pending = await engine.manager.cancel(run_id, "changed my mind", mode=mode)
    assert (pending.status, pending.is_terminal) == (RunStatus.PENDING, False)
    assert pending.cancel is not None
    async with engine.serving(AGENT):
        run = await engine.ended(run_id)
        engine.model.script([text("Hi.")])
        await engine.manager.resume(run_id)
        resumed = await engine.ended(run_id)
    assert (run.status, run.steps) == (RunStatus.CANCELLED, ())
    assert run.cancel is not None
    assert run.cancel.reason == "changed my mind"
    assert resumed.output == "Hi."


async def test_a_cancel_in_a_back_off_does_not_wait_for_the_next_attempt(engine: Engine) -> None:
    engine.model.script([status(429, headers={"retry-after": "600"})])
    async with engine.serving(AGENT):
        run_id = await engine.start("clerk")

        async def waits() -> bool:
            waiting = (await engine.manager.get_run(run_id)).waiting_on
            return waiting is not None and waiting.type == "retry"

        await soon(waits)
        waiting = (await engine.manager.get_run(run_id)).waiting_on
        assert waiting is not None
        assert waiting.expires_at is not None
        assert waiting.since is not None
        assert 600 <= (waiting.expires_at - waiting.since).total_seconds() <= 600 * 1.2 + 1
        assert waiting.detail.startswith("attempt 2 of Step 1, after rate_limited: ")
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert run.steps[0].status == "cancelled"
    assert len(engine.model.requests) == 1


async def test_cancelling_after_the_end_changes_nothing(engine: Engine) -> None:
    engine.model.script([text("Hi.")])
    async with engine.serving(AGENT):
        run = await engine.run("clerk")
        for mode in ("now", "after_step", "rollback"):
            assert await engine.manager.cancel(run.run_id, mode=mode) == run  # type: ignore[arg-type]
