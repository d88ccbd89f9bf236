"""What the death of a worker costs: time until a standby goes on, and a cold start.

The model is served by this very process, which so sees when the next request comes.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.model import answer, prompt
from bench.processes import memory_mib
from bench.stage import NO_LIMITS, Stage, worker
from perdure.client.manager import RunManager
from tests.harness.recorded import RecordedRequest
from tests.harness.replies import Reply, no_answer, text
from tests.harness.scripted_openai import ScriptedOpenAI

STANDBY_QUEUE, COLD_QUEUE = "bench-standby", "bench-cold"
KILL_AFTER_S = 1.5
"""Into the model call: it has sent heartbeats by then."""
PATIENCE_S = 120.0
OVERDUE_S = 13.0
"""After so long without any worker, the Step's next attempt is due: heartbeat timeout and wait."""


async def by_standby(stage: Stage, times: int) -> list[float]:
    """Kill the worker in a model call; return the seconds until another one repeats it."""
    took: list[float] = []
    for number in range(times):
        queue = f"{STANDBY_QUEUE}-{number}"
        async with AsyncExitStack() as stack:
            models = [await stack.enter_async_context(ScriptedOpenAI()) for _ in range(2)]
            for model in models:
                model.respond_with(lambda _: text(*["word "] * 2000).delayed(0.05))
            workers = [
                await stack.enter_async_context(worker(stage, queue, model.base_url))
                for model in models
            ]
            run_id = await RunManager(stage.client, queue).start_run("waiter", "Wait.")
            asked = await _asked(models)
            await asyncio.sleep(KILL_AFTER_S)
            models[1 - asked].respond_with(lambda _: text("Done."))
            workers[asked].kill()
            start_s = time.perf_counter()
            async with asyncio.timeout(PATIENCE_S):
                await models[1 - asked].wait_for_requests(1, PATIENCE_S)
                took.append(time.perf_counter() - start_s)
                await stage.client.get_workflow_handle(run_id).result()
    return took


async def _asked(models: list[ScriptedOpenAI]) -> int:
    """Return which of the models was asked first."""
    waits = [asyncio.create_task(model.wait_for_requests(1, PATIENCE_S)) for model in models]
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return waits.index(done.pop())


@dataclass(frozen=True)
class ColdStart:
    """A worker that knows nothing takes up a long Run."""

    turns: int
    from_start_s: float
    """From the start of the process to the model request of the Run's next turn."""
    from_ready_s: float
    """From the moment it polls."""
    peak_mib: float
    """Of the process, at that request."""
    idle_mib: float
    """Of a worker that has just started."""


async def cold_start(stage: Stage, turns: int) -> ColdStart:
    """Kill the worker before the last turn of a long Run, and let a fresh one go on."""
    async with ScriptedOpenAI() as model:
        last_is_held = True

        def held_at_the_end(request: RecordedRequest) -> Reply:
            turn = 1 + sum(message["role"] == "assistant" for message in request.messages)
            return no_answer() if last_is_held and turn == turns else answer(request)

        model.respond_with(held_at_the_end)
        async with worker(stage, COLD_QUEUE, model.base_url) as first:
            idle_mib = memory_mib(first.pid, "VmHWM")
            run_id = await RunManager(stage.client, COLD_QUEUE).start_run(
                "echo", prompt(turns), limits=NO_LIMITS
            )
            await model.wait_for_requests(turns, PATIENCE_S)
            first.kill()
        last_is_held = False
        await asyncio.sleep(OVERDUE_S)
        start_s = time.perf_counter()
        async with worker(stage, COLD_QUEUE, model.base_url) as fresh:
            ready_s = time.perf_counter()
            await model.wait_for_requests(turns + 1, PATIENCE_S)
            asked_s = time.perf_counter()
            peak_mib = memory_mib(fresh.pid, "VmHWM")
            await stage.client.get_workflow_handle(run_id).result()
    return ColdStart(turns, asked_s - start_s, asked_s - ready_s, peak_mib, idle_mib)
