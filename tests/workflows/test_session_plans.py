"""Sessions on the real server, by plans made from seeds: whatever is done, what is true stays so.

The pure core has its own state machine (`tests/sessions/test_stateful.py`), with thousands of
plans; here are a few, against the real server, over restarts of the worker.
"""

import asyncio
import random
from contextlib import AsyncExitStack, suppress

import pytest
from temporalio.service import RPCError

from perdure import Agent, PerdureError
from perdure.runs.errors import IdempotencyConflict
from perdure.sessions.contract import StartedRun, workflow_id
from tests.harness.engine import Engine
from tests.harness.scripted_openai import RecordedRequest, Reply, status, text

AGENT = Agent(name="helper")
STEPS = 14
ON_BUSY = ["reject", "enqueue", "interrupt", "rollback", "steer"]
WHAT = ["start"] * 6 + ["together", "again", "cancel", "terminate", "resume", "restart", "answer"]


class Plan:
    """One Session, and what is done to it.

    Args:
        engine: Serves its Runs.
        seed: Of which the plan is made.
    """

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.dice = random.Random(seed)  # noqa: S311 - must be repeatable, not secret
        self.session = engine.manager.session(f"plan-{engine.task_queue}")
        self.stack = AsyncExitStack()
        self.run_ids: list[str] = []
        self.keys: dict[str, tuple[str, str, str]] = {}
        """Of each key: what was said with it, what was to happen, and the Run that came of it."""

    async def carry_out(self) -> None:
        """Do it all, and wait until nothing goes on."""
        await self.stack.enter_async_context(self.engine.serving(AGENT))
        async with self.stack:
            for number in range(STEPS):
                what = self.dice.choice(WHAT)
                with suppress(PerdureError):  # refused, in our words
                    await getattr(self, what)(number)
            await self.engine.rest(self.session.session_id)
            for run_id in self.run_ids:
                assert (await self.engine.manager.get_run(run_id)).is_terminal

    async def start(self, number: int) -> None:
        """Say something, with a key."""
        words, key, on_busy = f"Word {number}.", f"key-{number}", self.dice.choice(ON_BUSY)
        started = await self._said(words, key, on_busy)
        self.run_ids.append(started.run_id)
        self.keys[key] = (words, on_busy, started.run_id)

    async def together(self, number: int) -> None:
        """Say several things at once."""
        several = [
            self._said(f"Words {number}.{each}.", f"key-{number}.{each}", self.dice.choice(ON_BUSY))
            for each in range(4)
        ]
        for each in await asyncio.gather(*several, return_exceptions=True):
            assert isinstance(each, StartedRun | PerdureError)
            if isinstance(each, StartedRun):
                self.run_ids.append(each.run_id)

    async def again(self, number: int) -> None:
        """Say something again with its key, and something else with it."""
        if not self.keys:
            return
        key = self.dice.choice(sorted(self.keys))
        words, on_busy, run_id = self.keys[key]
        repeated = await self._said(words, key, on_busy)
        # What was said too late to another Run may have become one of its own meanwhile.
        assert repeated.how == "replayed"
        assert on_busy == "steer" or repeated.run_id == run_id
        with pytest.raises(IdempotencyConflict):
            await self._said("Something else.", key, on_busy)

    async def cancel(self, number: int) -> None:
        """Cancel a Run, whether it goes on, waits or has ended."""
        mode = self.dice.choice(["now", "after_step", "rollback"])
        await self.engine.manager.cancel(self.dice.choice(self.run_ids or ["none"]), mode=mode)

    async def terminate(self, number: int) -> None:
        """End the active Run from outside."""
        active = (await self.session.get()).active_run_id
        if active is not None:
            with suppress(RPCError):  # it has ended meanwhile
                await self.engine.client.get_workflow_handle(active).terminate("by an operator")

    async def resume(self, number: int) -> None:
        """Let a Run go on, if that is possible."""
        await self.engine.manager.resume(self.dice.choice(self.run_ids or ["none"]))

    async def answer(self, number: int) -> None:
        """Wait until the Session is at rest."""
        await self.engine.rest(self.session.session_id)

    async def restart(self, number: int) -> None:
        """Stop the worker, and start another one."""
        await self.stack.aclose()
        await self.stack.enter_async_context(self.engine.serving(AGENT))

    async def _said(self, words: str, key: str, on_busy: str) -> StartedRun:
        return await self.session.start_run("helper", words, on_busy=on_busy, idempotency_key=key)


def speaking(dice: random.Random) -> Reply:
    """Answer after a while, or fail."""
    if dice.random() < 0.15:
        return status(401)
    return text(*["word "] * dice.randint(1, 12)).delayed(0.02)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_whatever_is_done_to_a_session_it_comes_to_rest(engine: Engine, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - must be repeatable, not secret

    def answer(request: RecordedRequest) -> Reply:
        return speaking(dice)

    engine.model.respond_with(answer)
    plan = Plan(engine, seed)
    await plan.carry_out()
    assert await engine.client.get_workflow_handle(workflow_id(plan.session.session_id)).describe()
    assert len(plan.run_ids) > 3  # something was accepted
