"""Many Runs, one provider: what it sees of them stays within bounds, and all of them end."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure import Agent
from perdure.activities.openai_chat import Answer
from perdure.activities.pace import Pace
from perdure.runs.limits import RateLimit
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import RecordedRequest, Reply, status, text

AGENT = Agent(name="talker")
WINDOW_S = 1.0


class Noted(Pace):
    """Notes when calls go out: when they arrive depends on how busy the machine is as well."""

    def __init__(self, most: int) -> None:
        super().__init__({"*": RateLimit(requests_per_minute=most)}, WINDOW_S)
        self.went_out: list[float] = []

    @asynccontextmanager
    async def turn(
        self, model: str, size: int, longest: int | None, answer: Answer, *, who: str = ""
    ) -> AsyncIterator[None]:
        """Be in the turn of a call."""
        async with super().turn(model, size, longest, answer, who=who):
            self.went_out.append(self._lane(model)._recent[-1].at)
            yield


async def statuses(engine: Engine, runs: int) -> list[RunStatus]:
    """Execute so many Runs at once."""
    ended = await asyncio.gather(*[engine.run("talker") for _ in range(runs)])
    return [run.status for run in ended]


async def test_thirty_runs_send_no_more_than_the_limit_in_any_window(engine: Engine) -> None:
    most = 6
    engine.pace = pace = Noted(most)
    engine.model.respond_with(lambda request: text("Hi."))
    async with engine.serving(AGENT):
        assert await statuses(engine, 30) == [RunStatus.COMPLETED] * 30
    assert len(pace.went_out) == len(engine.model.requests) == 30
    for start in pace.went_out:
        assert sum(start <= at < start + WINDOW_S for at in pace.went_out) <= most


async def test_twenty_runs_wait_out_a_provider_that_says_slow_down(engine: Engine) -> None:
    runs, refused_s = 20, 4.0
    begun: list[float] = []

    def answer(request: RecordedRequest) -> Reply:
        begun.append(time.monotonic())
        refused = begun[-1] - begun[0] < refused_s
        return status(429, headers={"retry-after-ms": "50"}) if refused else text("Hi.")

    engine.model.respond_with(answer)
    async with engine.serving(AGENT):
        assert await statuses(engine, runs) == [RunStatus.COMPLETED] * runs
    assert len(engine.model.requests) <= 2 * runs + 5, "one each, and a few to see whether it goes"


async def test_a_run_cancelled_while_it_waits_its_turn_ends_and_has_asked_nothing(
    engine: Engine,
) -> None:
    engine.pace = Pace({"*": RateLimit(requests_per_minute=1)})
    engine.model.respond_with(lambda request: text("Hi."))
    async with engine.serving(AGENT):
        await engine.run("talker")
        waiting = await engine.start("talker")
        while not await engine.manager.pending_steps(waiting):  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.05)
        await engine.manager.cancel(waiting)
        async with asyncio.timeout(20):
            run = await engine.ended(waiting)
    assert run.status is RunStatus.CANCELLED
    assert (run.usage.model_calls, run.usage.complete) == (0, True)
    assert len(engine.model.requests) == 1
