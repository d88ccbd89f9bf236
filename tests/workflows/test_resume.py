"""Resuming: an ended Run goes on from its last good Step, under its id, with its totals."""

import asyncio
from datetime import UTC, datetime

import pytest

from perdure import Agent, Limits, Timeouts, tool
from perdure.runs.errors import ErrorCode, RunNotResumable
from perdure.runs.status import RunStatus, StopReason
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls


class Ledger:
    """What tools really did."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.paid: list[int] = []
        self.entered = asyncio.Event()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def agent(ledger: Ledger) -> Agent:
    @tool(effect="read")
    def look(number: int) -> int:
        """Look something up."""
        ledger.read.append(number)
        return number * 10

    @tool(effect="read")
    async def stare(number: int) -> int:
        """Look for as long as nobody stops it; only once."""
        ledger.read.append(number)
        if ledger.entered.is_set():
            return number * 10
        ledger.entered.set()
        await asyncio.Event().wait()
        return 0

    @tool
    async def pay(number: int) -> int:
        """Pay, then wait."""
        ledger.paid.append(number)
        await asyncio.Event().wait()
        return number

    return Agent(name="clerk", tools=[look, stare, pay])


QUOTA = {"error": {"code": "insufficient_quota", "message": "No money."}}


async def test_a_failed_run_goes_on_where_it_failed_once_the_cause_is_mended(
    engine: Engine, agent: Agent, ledger: Ledger
) -> None:
    engine.model.script(
        [
            tool_calls(call("look", {"number": 1}), usage=(50, 5)),
            status(429, QUOTA),
            text("It is 10.", usage=(80, 8)),
        ]
    )
    async with engine.serving(agent):
        failed = await engine.run("clerk")
        assert failed.error is not None
        assert failed.error.code is ErrorCode.QUOTA_EXHAUSTED
        resumed = await engine.manager.resume(failed.run_id)
        assert resumed.status is RunStatus.RUNNING
        run = await engine.ended(failed.run_id)
        whole = await engine.projected_from_start(run.run_id)
    assert run.run_id == failed.run_id
    assert (run.status, run.output) == (RunStatus.COMPLETED, "It is 10.")
    assert (run.error, run.total_tokens, ledger.read) == (None, 143, [1])
    assert [(s.kind, s.status, s.turn) for s in run.steps] == [
        ("model", "completed", 1),
        ("tool", "completed", 1),
        ("model", "failed", 2),
        ("model", "completed", 2),
    ]
    assert whole.steps == run.steps
    assert len(engine.model.requests) == 3


async def test_one_stream_of_events_tells_both_lives_of_a_run(engine: Engine, agent: Agent) -> None:
    engine.model.script([status(401), status(401), text("Done.")])
    async with engine.serving(agent):
        run_id = (await engine.run("clerk")).run_id
        seen = [event.sequence_number async for event in engine.manager.events(run_id)][-1]
        await engine.manager.resume(run_id)
        await engine.ended(run_id)
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
        every = [event async for event in engine.manager.events(run_id)]
        later = [event async for event in engine.manager.events(run_id, starting_after=seen)]
    assert [event.type for event in every].count("run.resumed") == 2
    assert later == every[seen + 1 :]
    assert later[0].type == "run.resumed"

    async def listed_once() -> bool:
        found = [r for r in (await engine.manager.list_runs()).runs if r.run_id == run_id]
        same = [r.created_at == run.created_at for r in found]
        return same == [True] and found[0].status == "completed"

    await soon(listed_once)


async def test_a_cancelled_run_resumes_and_runs_again_only_what_may_be_run_again(
    engine: Engine, agent: Agent, ledger: Ledger
) -> None:
    engine.model.script(
        [
            tool_calls(
                call("look", {"number": 1}),
                call("stare", {"number": 2}),
                call("pay", {"number": 3}),
            ),
            text("Some of it."),
        ]
    )
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        async with asyncio.timeout(20):
            await ledger.entered.wait()

        async def looked_and_paid() -> bool:
            now = await engine.manager.get_run(run_id)
            return now.tool_calls[0].status == "completed" and ledger.paid == [3]

        await soon(looked_and_paid)
        await engine.manager.cancel(run_id, "a mistake")
        cancelled = await engine.ended(run_id)
        assert cancelled.cancel is not None
        assert cancelled.cancel.tools_running == tuple(c.call_id for c in cancelled.tool_calls[1:])
        assert cancelled.cancel.outcome_unknown == (cancelled.tool_calls[2].call_id,)
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert run.cancel is None
    assert (sorted(ledger.read), ledger.paid) == ([1, 2, 2], [3])
    assert [c.status for c in run.tool_calls] == ["completed", "completed", "cancelled"]
    assert "outcome_unknown" in (run.tool_calls[2].result or "")


async def test_a_run_that_met_a_limit_goes_on_with_a_higher_one_only(
    engine: Engine, agent: Agent, ledger: Ledger
) -> None:
    engine.model.script(
        [tool_calls(call("look", {"number": n})) for n in (1, 2)] + [text("Enough.")]
    )
    async with engine.serving(agent):
        failed = await engine.run("clerk", limits=Limits(max_turns=2))
        with pytest.raises(RunNotResumable, match="2 turns") as refused:
            await engine.manager.resume(failed.run_id)
        assert "max_turns" in refused.value.hint
        await engine.manager.resume(failed.run_id, limits=Limits(max_turns=3))
        run = await engine.ended(failed.run_id)
    assert failed.stop_reason is StopReason.MAX_TURNS
    assert (run.status, run.turn, ledger.read) == (RunStatus.COMPLETED, 3, [1, 2])


async def test_a_run_out_of_time_gets_its_time_again(engine: Engine, agent: Agent) -> None:
    gate = Gate()
    engine.model.script([text("late").hold(gate), text("In time.")])
    async with engine.serving(agent):
        late = await engine.run("clerk", timeouts=Timeouts(run_s=3))
        await engine.manager.resume(late.run_id, timeouts=Timeouts(run_s=60))
        run = await engine.ended(late.run_id)
        described = await engine.client.get_workflow_handle(run.run_id).describe()
    assert late.status is RunStatus.TIMEOUT
    assert (run.status, run.output) == (RunStatus.COMPLETED, "In time.")
    timeout = described.raw_description.execution_config.workflow_execution_timeout
    assert timeout.ToTimedelta().total_seconds() == 90


async def test_a_terminated_run_can_be_resumed(engine: Engine, agent: Agent) -> None:
    gate = Gate()
    engine.model.script([text("lost").hold(gate), text("Found.")])
    async with engine.serving(agent):
        run_id = await engine.start("clerk")
        await gate.reached
        await engine.client.get_workflow_handle(run_id).terminate("by hand")
        terminated = await engine.ended(run_id)
        await engine.manager.resume(run_id)
        run = await engine.ended(run_id)
    assert [step.status for step in terminated.steps] == ["cancelled"]
    assert terminated.stop_reason is StopReason.TERMINATED
    assert run.output == "Found."


async def test_what_can_not_be_resumed_is_refused_with_the_way_out(
    engine: Engine, agent: Agent
) -> None:
    gate = Gate()
    engine.model.script([text("Hi."), text("slow").hold(gate)])
    async with engine.serving(agent):
        done = await engine.run("clerk")
        with pytest.raises(RunNotResumable, match="completed") as refused:
            await engine.manager.resume(done.run_id)
        assert "fork" in refused.value.hint
        running = await engine.start("clerk")
        await gate.reached
        with pytest.raises(RunNotResumable, match="running"):
            await engine.manager.resume(running)
        gate.open()
        await engine.ended(running)


async def test_two_people_who_resume_at_once_resume_it_once(engine: Engine, agent: Agent) -> None:
    engine.model.script([status(401), text("Done.")])
    async with engine.serving(agent):
        run_id = (await engine.run("clerk")).run_id
        both = await asyncio.gather(
            engine.manager.resume(run_id), engine.manager.resume(run_id), return_exceptions=True
        )
        run = await engine.ended(run_id)
    assert sum(isinstance(each, RunNotResumable) for each in both) == 1
    assert run.status is RunStatus.COMPLETED
    assert run.resumed_at is not None
    assert run.resumed_at <= datetime.now(UTC)
    assert len(engine.model.requests) == 2
