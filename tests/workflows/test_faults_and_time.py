"""What must not stall a Run: faults in our own code, errors that last, waits that are asked for."""

import pytest

from perdure import Agent, Timeouts
from perdure.runs.errors import ErrorCode
from perdure.runs.retries import RETRIES
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import status, text

AGENT = Agent(name="speaker")


async def test_a_programming_error_ends_the_run_and_does_not_stall_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: object) -> None:
        raise KeyError("a fault of ours")

    async with engine.serving(AGENT):
        monkeypatch.setattr("perdure.workflows.run.decide", broken)
        run = await engine.manager.wait(await engine.start("speaker"))
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.INTERNAL
    assert "a fault of ours" in run.error.message


async def test_an_error_that_lasts_is_given_up_after_as_many_requests_as_its_rule_says(
    engine: Engine,
) -> None:
    # The provider asks for short waits, so that the test need not sit through ours.
    engine.model.respond_with(lambda request: status(503, headers={"retry-after-ms": "10"}))
    async with engine.serving(AGENT):
        run = await engine.run("speaker")
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.LLM_UNAVAILABLE
    assert len(engine.model.requests) == RETRIES[ErrorCode.LLM_UNAVAILABLE].max_attempts
    assert run.steps[0].attempt == len(engine.model.requests)


async def test_a_wait_that_the_provider_asks_for_is_kept(engine: Engine) -> None:
    engine.model.script([status(429, headers={"retry-after": "2"}), text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("speaker")
    first, second = engine.model.requests
    assert run.status is RunStatus.COMPLETED
    assert second.arrived_at - first.arrived_at >= 2


async def test_a_run_that_waits_for_its_provider_meets_its_deadline(engine: Engine) -> None:
    engine.model.script([status(429, headers={"retry-after": "20"})])
    async with engine.serving(AGENT):
        run = await engine.run("speaker", timeouts=Timeouts(run_s=3))
    assert run.status is RunStatus.TIMEOUT
    assert run.error is not None
    assert run.error.code is ErrorCode.RUN_TIMEOUT
    assert len(engine.model.requests) == 1


@pytest.mark.parametrize(("run_s", "retry_after"), [(30, "1800"), (None, "86400")])
async def test_a_wait_that_leads_nowhere_ends_the_run_at_once(
    engine: Engine, run_s: float | None, retry_after: str
) -> None:
    """Longer than the Run may take, or than we wait: resuming it later is the way out."""
    engine.model.script([status(429, headers={"retry-after": retry_after})])
    async with engine.serving(AGENT):
        run = await engine.run("speaker", timeouts=Timeouts(run_s=run_s))
    assert run.error is not None
    assert (run.error.code, run.error.retryable) == (ErrorCode.RATE_LIMITED, True)
    assert len(engine.model.requests) == 1


async def test_a_cancel_while_waiting_for_the_next_attempt_ends_the_run(engine: Engine) -> None:
    engine.model.script([status(429, headers={"retry-after": "1800"})])
    async with engine.serving(AGENT):
        run_id = await engine.start("speaker")
        await engine.model.wait_for_requests(1, timeout_s=20)
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert len(engine.model.requests) == 1
