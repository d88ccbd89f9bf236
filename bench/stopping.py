"""How long a cancel takes: until the Run has ended, and until the provider sees its client go.

The model is served by this very process, so that a connection's end is noticed as it happens.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

from bench.stage import Stage, worker
from perdure.client.manager import RunManager
from perdure.runs.events import StepStarted
from perdure.runs.status import RunStatus
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, call, no_answer, text, tool_calls
from tests.harness.scripted_openai import ScriptedOpenAI

QUEUE = "bench-stopping"
MOMENTS = ("streaming", "silence", "tool")
"""What the Run does when it is cancelled."""
SEED = 7
WAIT_UP_TO_S = 1.0
"""The moment of a cancel is drawn from so many seconds after that has begun."""
AT_ONCE = 4


@dataclass
class Cancels:
    """Seconds from the request to cancel."""

    until_ended: list[float] = field(default_factory=list)
    """Until a client that follows the Run has its last Event."""
    until_closed: list[float] = field(default_factory=list)
    """Until the model request's connection was closed, where there was one."""


def middle_and_worst(values: list[float]) -> tuple[float, float]:
    """Return p50 and p99."""
    return median(values), quantiles(values, n=100, method="inclusive")[98]


async def cancels(stage: Stage, count: int) -> Cancels:
    """Cancel so many Runs, each at a random moment."""
    dice = random.Random(SEED)  # noqa: S311 - must be repeatable, not secret
    plan = [(MOMENTS[n % len(MOMENTS)], dice.uniform(0, WAIT_UP_TO_S)) for n in range(count)]
    took = Cancels()
    async with _model() as model, worker(stage, QUEUE, model.base_url):
        manager = RunManager(stage.client, QUEUE)
        left = iter(enumerate(plan))

        async def lane() -> None:
            for number, (moment, wait_s) in left:
                await _cancelled(manager, model, f"{moment} {number}", wait_s, took)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(AT_ONCE):
                lanes.create_task(lane())
    return took


async def _cancelled(
    manager: RunManager, model: ScriptedOpenAI, prompt: str, wait_s: float, took: Cancels
) -> None:
    run_id = await manager.start_run("waiter", prompt)
    begun_step = 2 if prompt.startswith("tool") else 1
    async for event in manager.events(run_id):
        if isinstance(event, StepStarted) and event.step == begun_step:
            break
    await asyncio.sleep(wait_s)
    start_s = time.perf_counter()

    async def closed() -> None:
        request = _request_of(model, prompt)
        if request is not None and not request.completed.is_set():
            await request.disconnected.wait()
            took.until_closed.append(time.perf_counter() - start_s)

    async with asyncio.TaskGroup() as both:
        both.create_task(closed())
        await manager.cancel(run_id)
        async for _ in manager.events(run_id):
            pass
        took.until_ended.append(time.perf_counter() - start_s)
    run = await manager.get_run(run_id)
    if run.status is not RunStatus.CANCELLED:
        raise RuntimeError(f"a cancelled Run is {run.status}: {run.error}")


@asynccontextmanager
async def _model() -> AsyncIterator[ScriptedOpenAI]:
    async with ScriptedOpenAI() as model:
        model.respond_with(_answer)
        yield model


def _answer(request: RecordedRequest) -> Reply:
    match _prompt(request).split()[0]:
        case "streaming":
            return text(*["word "] * 2000).delayed(0.05)
        case "silence":
            return no_answer()
        case _:
            return tool_calls(call("pause", {"seconds": 60}))


def _prompt(request: RecordedRequest) -> str:
    return next(str(m["content"]) for m in request.messages if m["role"] == "user")


def _request_of(model: ScriptedOpenAI, prompt: str) -> RecordedRequest | None:
    return next((r for r in model.requests if _prompt(r) == prompt), None)
