"""With no worker alive, the server itself ends a Run whose time is up."""

from datetime import timedelta

import pytest

from perdure import Agent, Timeouts
from perdure.client import launch
from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus, StopReason
from perdure.workflows import starting
from tests.harness.engine import Engine, assert_event_stream
from tests.harness.scripted_openai import text


async def test_a_run_without_a_worker_reads_as_timeout_and_can_be_resumed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(client: object, task_queue: str) -> None:
        """Let the Run start though nothing would pick it up."""

    with monkeypatch.context() as patched:
        patched.setattr(launch, "require_worker", nobody)
        patched.setattr(starting, "BACKSTOP", timedelta(0))
        run_id = await engine.start("clerk", timeouts=Timeouts(run_s=1))
        late = await engine.manager.wait(run_id)
    assert (late.status, late.stop_reason) == (RunStatus.TIMEOUT, StopReason.DEADLINE)
    assert late.error is not None
    assert late.error.code is ErrorCode.RUN_TIMEOUT
    events = [event async for event in engine.manager.events(run_id)]
    assert_event_stream(events, late)
    engine.model.script([text("Hi.")])
    async with engine.serving(Agent(name="clerk")):
        await engine.manager.resume(run_id, timeouts=Timeouts(run_s=60))
        run = await engine.ended(run_id)
    assert (run.status, run.output) == (RunStatus.COMPLETED, "Hi.")
