"""What happens to Sessions and Runs behind each other's backs is noticed, and nothing is stuck."""

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure import Agent
from perdure.runs.errors import RunNotFound, SessionBusy, SessionNotFound
from perdure.runs.status import RunStatus, StopReason
from perdure.sessions.contract import workflow_id
from perdure.sessions.parts import SessionSettings
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, text
from tests.harness.temporal import delete_workflow, listed

AGENT = Agent(name="helper")


async def test_a_run_terminated_from_outside_is_noticed(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Lost.").hold(gate), text("Hi.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("terminated-run")
        first = await session.start_run("helper", "One.")
        second = await session.start_run("helper", "Two.", on_busy="enqueue")
        await gate.reached
        await engine.client.get_workflow_handle(first.run_id).terminate("by hand")
        lost = await engine.ended(first.run_id)
        run = await engine.ended(second.run_id)
        report = await engine.rest("terminated-run")
    assert (lost.status, lost.stop_reason) == (RunStatus.CANCELLED, StopReason.TERMINATED)
    assert run.output == "Hi."
    assert report.runs == 2


async def test_a_run_that_waits_and_is_terminated_is_noticed(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("One.").hold(gate), text("Three.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("terminated-wait")
        await session.start_run("helper", "1")
        second = await session.start_run("helper", "2", on_busy="enqueue")
        third = await session.start_run("helper", "3", on_busy="enqueue")
        await gate.reached
        await engine.client.get_workflow_handle(second.run_id).terminate("by hand")
        gate.open()
        run = await engine.ended(third.run_id)
        report = await engine.rest("terminated-wait")
    assert run.output == "Three."
    assert report.runs == 2


async def test_a_run_deleted_from_temporal_is_noticed(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Lost.").hold(gate), text("Hi.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("deleted-run")
        first = await session.start_run("helper", "One.")
        second = await session.start_run("helper", "Two.", on_busy="enqueue")
        await gate.reached
        await delete_workflow(engine.client, first.run_id)
        run = await engine.ended(second.run_id)

        async def is_gone() -> bool:
            try:
                await engine.manager.get_run(first.run_id)
            except RunNotFound:
                return True
            return False

        await soon(is_gone)
        report = await session.get()
        conversation = [message.content for message in await session.messages()]
    assert run.output == "Hi."
    assert conversation[-2:] == ["Two.", "Hi."]
    assert report.runs == 2


async def test_a_run_outlives_its_session_and_a_new_one_adopts_it(engine: Engine) -> None:
    gates = [Gate(), Gate()]
    engine.model.script([text("One.").hold(gates[0]), text("Two.").hold(gates[1]), text("Three.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("adopted")
        first = await session.start_run("helper", "1")
        second = await session.start_run("helper", "2", on_busy="enqueue")
        await gates[0].reached
        await listed(engine.client, first.run_id, second.run_id)
        await engine.client.get_workflow_handle(workflow_id("adopted")).terminate("by hand")
        assert (await engine.manager.get_run(second.run_id)).status is RunStatus.PENDING
        with pytest.raises(SessionBusy) as refused:
            await session.start_run("helper", "3")
        third = await session.start_run("helper", "3", on_busy="enqueue")
        report = await session.get()
        gates[0].open()
        assert (await engine.ended(first.run_id)).output == "One."
        await gates[1].reached
        gates[1].open()
        runs = [await engine.ended(each.run_id) for each in (second, third)]
        await engine.rest("adopted", first.run_id, second.run_id)
        conversation = [message.content for message in await session.messages()]
    assert refused.value.active_run_id == report.active_run_id == first.run_id
    assert report.queue == (second.run_id, third.run_id)
    assert [run.output for run in runs] == ["Two.", "Three."]
    assert conversation == ["1", "One.", "2", "Two.", "3", "Three."]


async def test_a_run_whose_session_is_gone_ends_well_by_itself(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("One.").hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("orphaned")
        first = await session.start_run("helper", "1")
        await gate.reached
        await engine.client.get_workflow_handle(workflow_id("orphaned")).terminate("by hand")
        gate.open()
        run = await engine.ended(first.run_id)
        with pytest.raises(SessionNotFound):
            await session.clear()
    assert run.output == "One."


async def test_temporals_own_cancel_ends_a_session_and_its_runs(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "an answer").hold(gate, before_chunk=2), text("Hi.")])
    async with engine.serving(AGENT):
        session = engine.manager.session("cancelled")
        first = await session.start_run("helper", "1")
        second = await session.start_run("helper", "2", on_busy="enqueue")
        await gate.reached
        handle = engine.client.get_workflow_handle(workflow_id("cancelled"))
        await handle.cancel()
        result = await handle.result()
        runs = [await engine.ended(each.run_id) for each in (first, second)]
        described = await handle.describe()
        again = await session.start_run("helper", "3")
        await engine.rest("cancelled")
    assert result["why"] == "deleted"
    assert described.status is WorkflowExecutionStatus.COMPLETED
    assert [run.status for run in runs] == [RunStatus.CANCELLED] * 2
    assert [run.stop_reason for run in runs] == [StopReason.SUPERSEDED] * 2
    assert again.how == "begun"


async def test_an_idle_session_ends_after_a_while_and_another_may_begin(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Hi."))
    async with engine.serving(AGENT):
        session = engine.manager.session("idle-end")
        await session.configure(SessionSettings(idle_s=0.3))
        handle = engine.client.get_workflow_handle(workflow_id("idle-end"))
        assert (await handle.result())["why"] == "expired"
        started = await session.start_run("helper", "Hello.")
        await engine.rest("idle-end")
        assert len(await session.messages()) == 2
        report = await session.configure(SessionSettings(idle_s=0.3))
        assert (await handle.result())["runs"] == 1
        assert (await engine.manager.get_run(started.run_id)).output == "Hi."
    assert report.runs == 1


async def test_starts_in_the_very_moment_of_the_end_are_answered(engine: Engine) -> None:
    engine.model.respond_with(lambda request: text("Hi."))
    async with engine.serving(AGENT):
        session = engine.manager.session("last-moment")
        for number in range(8):
            await session.configure(SessionSettings(idle_s=0.05))
            started = await session.start_run("helper", f"Number {number}.")
            run = await engine.ended(started.run_id)
            assert (started.how, run.output) == ("begun", "Hi.")
