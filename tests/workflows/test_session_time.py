"""Hours and days in the life of a Session: its clock, and those of its Runs, are put forward."""

from datetime import timedelta

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import TimeSkipper

from perdure import Agent
from perdure.client.listing import open_runs
from perdure.runs.errors import SessionNotFound
from perdure.runs.status import RunStatus, StopReason
from perdure.sessions.contract import workflow_id
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="helper")
ANSWER = text("Hi.")


async def forward(engine: Engine, workflow: str, **by: float) -> bool:
    """Put the clock of a workflow forward; tell whether it has not ended by then."""
    handle = engine.client.get_workflow_handle(workflow)
    return await TimeSkipper(engine.client).fast_forward(handle, timedelta(**by))


async def test_a_session_lives_for_thirty_days_without_a_run(strict_engine: Engine) -> None:
    engine = strict_engine
    engine.model.respond_with(lambda request: ANSWER)
    async with engine.serving(AGENT):
        session = engine.manager.session("month")
        await session.start_run("helper", "1")
        await engine.rest("month")
        assert await forward(engine, workflow_id("month"), days=29)
        await session.start_run("helper", "2")
        report = await engine.rest("month")
        assert report.messages == 4
        assert report.expires_at - report.last_active_at == timedelta(days=30)
        events = len((await engine.executions(workflow_id("month")))[0].events)
        assert await forward(engine, workflow_id("month"), days=29)
        later = await engine.executions(workflow_id("month"))
        assert not await forward(engine, workflow_id("month"), days=2)
        described = await engine.client.get_workflow_handle(workflow_id("month")).describe()
        assert described.status is WorkflowExecutionStatus.COMPLETED
        with pytest.raises(SessionNotFound):
            await session.clear()
        await session.start_run("helper", "3")
        report = await engine.rest("month")
    assert (report.runs, report.messages) == (1, 2)
    # Of the clock being put forward, not of the Session.
    assert len(later[0].events) - events <= 2


async def test_a_session_does_not_expire_while_a_run_goes_on(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([ANSWER, ANSWER.hold(gate)])
    async with engine.serving(AGENT):
        session = engine.manager.session("patient")
        await session.start_run("helper", "1")
        await engine.rest("patient")
        await session.start_run("helper", "2")
        await gate.reached
        described = engine.client.get_workflow_handle(workflow_id("patient"))
        assert "idle" not in str((await described.fetch_history()).events[-1])
        gate.open()
        report = await engine.rest("patient")
    assert (report.runs, report.messages) == (2, 4)


async def test_a_turn_is_waited_for_an_hour(strict_engine: Engine) -> None:
    engine = strict_engine
    gate = Gate(60)
    engine.model.script([ANSWER.hold(gate), ANSWER])
    async with engine.serving(AGENT):
        session = engine.manager.session("hour")
        await session.start_run("helper", "1")
        waits = [
            (await session.start_run("helper", words, on_busy="enqueue")).run_id
            for words in ("2", "3")
        ]
        assert await forward(engine, waits[0], minutes=59)
        assert await forward(engine, waits[1], minutes=59)
        assert (await engine.manager.get_run(waits[0])).status is RunStatus.PENDING
        await forward(engine, waits[0], minutes=2)
        run = await engine.ended(waits[0])
        gate.open()
        report = await engine.rest("hour")
        last = await engine.manager.get_run(waits[1])
    assert (run.status, run.stop_reason) == (RunStatus.TIMEOUT, StopReason.QUEUE_EXPIRED)
    assert last.status is RunStatus.COMPLETED
    assert report.runs == 2


async def test_a_key_is_kept_for_a_day_and_then_dropped(strict_engine: Engine) -> None:
    engine = strict_engine
    engine.model.respond_with(lambda request: ANSWER)
    async with engine.serving(AGENT):
        session = engine.manager.session("keys")
        first = await session.start_run("helper", "1", idempotency_key="k")
        await engine.rest("keys")
        assert await forward(engine, workflow_id("keys"), hours=24)
        replayed = await session.start_run("helper", "1", idempotency_key="k")
        assert await forward(engine, workflow_id("keys"), hours=2)
        anew = await session.start_run("helper", "other", idempotency_key="k")
        report = await engine.rest("keys")
    assert (replayed.how, replayed.run_id) == ("replayed", first.run_id)
    assert (anew.how, report.runs) == ("begun", 2)


async def test_a_session_begins_where_temporal_can_not_be_searched(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.model.respond_with(lambda request: ANSWER)

    asked: list[RPCStatusCode] = []

    def failing(status: RPCStatusCode) -> None:
        def list_workflows(*args: object, **options: object) -> None:
            asked.append(status)
            raise RPCError("no search", status, b"")

        monkeypatch.setattr(engine.client, "list_workflows", list_workflows)

    failing(RPCStatusCode.UNIMPLEMENTED)
    assert await open_runs(engine.client, "unlisted") == []
    failing(RPCStatusCode.UNAVAILABLE)
    async with engine.serving(AGENT):
        session = engine.manager.session("unlisted")
        await session.start_run("helper", "1")
        report = await engine.rest("unlisted")
    assert report.runs == 1
    assert asked.count(RPCStatusCode.UNAVAILABLE) > 1
