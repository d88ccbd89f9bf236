"""`kill -9` of workers of busy Sessions: each request counts once, and nothing is stuck."""

import asyncio
import os
import signal
import sys

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.service import RPCError

from perdure.runs.status import RunStatus
from perdure.sessions.contract import StartedRun, workflow_id
from tests.e2e.ledger import Worker
from tests.harness.engine import Engine
from tests.harness.processes import kill, said
from tests.harness.scripted_openai import Gate, RecordedRequest, Reply, text

ACCEPTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
AT_ONCE = 20


async def asked_by_another_process(engine: Engine, session_id: str, key: str) -> StartedRun:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.e2e.asking", session_id, key),
        env=os.environ | {"PERDURE_TASK_QUEUE": engine.task_queue},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return StartedRun.model_validate_json(out)


async def until_accepted(engine: Engine, session_id: str) -> None:
    """Wait until a Session has taken the first request, as soon as the server knows."""
    handle = engine.client.get_workflow_handle(workflow_id(session_id))
    while True:
        try:
            async for event in handle.fetch_history_events(wait_new_event=True):
                if event.event_type == ACCEPTED:
                    return
        except RPCError:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("killed", ["before it accepts", "before it starts"])
async def test_gate_07_two_processes_with_one_key_get_one_run_whenever_the_worker_dies(
    engine: Engine, worker: Worker, killed: str
) -> None:
    engine.model.respond_with(lambda request: text("Sent."))
    session_id = f"killed-{engine.task_queue}"
    async with worker() as first:
        await said(first, "Worker ready")
        if killed == "before it accepts":
            first.send_signal(signal.SIGSTOP)
        asked = [
            asyncio.create_task(asked_by_another_process(engine, session_id, "one key"))
            for _ in range(2)
        ]
        if killed == "before it starts":
            await until_accepted(engine, session_id)
        else:
            await asyncio.wait(asked, timeout=2)  # both are asking by then
        await kill(first)
    async with worker() as second:
        await said(second, "Worker ready")
        answers = await asyncio.gather(*asked)
        run = await engine.ended(answers[0].run_id)
        report = await engine.rest(session_id)
    assert {each.run_id for each in answers} == {run.run_id}
    assert (run.output, report.runs) == ("Sent.", 1)
    assert len(engine.model.requests) == 1


async def two_runs(engine: Engine, session_id: str) -> tuple[str, str]:
    """Start a Run, and one that waits for its turn."""
    session = engine.manager.session(session_id)
    first = await session.start_run("clerk", "1")
    return first.run_id, (await session.start_run("clerk", "2", on_busy="enqueue")).run_id


async def test_gate_09_runs_that_go_on_and_runs_that_wait_all_end_after_a_crash(
    engine: Engine, worker: Worker
) -> None:
    gate = Gate(60)

    def answer(request: RecordedRequest) -> Reply:
        return text("Done.").hold(gate)

    engine.model.respond_with(answer)
    names = [f"crash-{engine.task_queue}-{number}" for number in range(AT_ONCE)]
    async with worker() as first:
        await said(first, "Worker ready")
        pairs = await asyncio.gather(*[two_runs(engine, name) for name in names])
        await engine.model.wait_for_requests(AT_ONCE)
        await kill(first)
    gate.open()
    async with worker() as second:
        await said(second, "Worker ready")
        async with asyncio.timeout(60):
            ended = [engine.manager.wait(run_id) for pair in pairs for run_id in pair]
            runs = await asyncio.gather(*ended)
        reports = await asyncio.gather(*[engine.rest(name) for name in names])
    assert [run.status for run in runs] == [RunStatus.COMPLETED] * (2 * AT_ONCE)
    assert [report.runs for report in reports] == [2] * AT_ONCE
    assert [report.messages for report in reports] == [4] * AT_ONCE
