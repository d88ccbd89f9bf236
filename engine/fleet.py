"""The SDK's Workers of one process, one for each task queue, run and stopped as one."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Self

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    FixedSizeSlotSupplier,
    Interceptor,
    ResourceBasedSlotConfig,
    ResourceBasedSlotSupplier,
    ResourceBasedTunerConfig,
    Worker,
    WorkerTuner,
)

from perdure.engine.roles import Duty
from perdure.engine.settings import Settings

DECISIONS = 100
"""Workflow tasks, and their look-ups, at once; the SDK's default. Each takes milliseconds."""
RESOURCES = ResourceBasedTunerConfig(target_memory_usage=0.8, target_cpu_usage=0.9)
"""Parts of the machine (of the container, where there is one) that may be in use when a worker
with the tuner `resources` takes another Step. The SDK advises against more than 0.8 of memory."""

Context = Callable[[], AbstractAsyncContextManager[None]]


def tuner(settings: Settings) -> WorkerTuner:
    """Return how much one Worker does at once."""
    most = settings.max_steps
    steps = (
        FixedSizeSlotSupplier(most)
        if settings.tuner == "fixed"
        else ResourceBasedSlotSupplier(ResourceBasedSlotConfig(maximum_slots=most), RESOURCES)
    )
    return WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(DECISIONS),
        activity_supplier=steps,
        local_activity_supplier=FixedSizeSlotSupplier(DECISIONS),
        nexus_supplier=FixedSizeSlotSupplier(DECISIONS),
    )


class Load(Interceptor):
    """Counts the Steps that one Worker executes.

    A Worker that has no room for another one does not poll, which is no fault.

    Args:
        settings: How many Steps at once.
    """

    def __init__(self, settings: Settings) -> None:
        # With resources, nobody knows how many there is room for.
        self._full_at = settings.max_steps if settings.tuner == "fixed" else 1
        self.steps = 0

    @property
    def may_be_full(self) -> bool:
        """True when it may well have no room."""
        return self.steps >= self._full_at

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count what goes through."""
        return _Counted(next, self)


class _Counted(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, load: Load) -> None:
        super().__init__(next)
        self._load = load

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if activity.info().is_local:
            return await super().execute_activity(input)
        self._load.steps += 1
        try:
            return await super().execute_activity(input)
        finally:
            self._load.steps -= 1


class Fleet:
    """Workers that live and die together: `async with fleet: …`, or `run` and `shutdown`.

    Args:
        identity: Under which all of them poll; no other process has it.
        contexts: What surrounds them all; entered before they start, left after they have ended.
    """

    def __init__(self, identity: str, contexts: Sequence[Context]) -> None:
        self.identity = identity
        self.duties: list[Duty] = []
        """What they do, each."""
        self._contexts = contexts
        self._workers: list[Worker] = []
        self._loads: list[Load] = []
        self._running: asyncio.Task[None] | None = None

    def add(self, worker: Worker, duty: Duty, load: Load) -> None:
        """Add one, before it is run.

        Args:
            worker: The SDK's.
            duty: What it does.
            load: What counts its Steps.
        """
        self._workers.append(worker)
        self.duties.append(duty)
        self._loads.append(load)

    def may_be_full(self) -> bool:
        """Tell whether one of them may have no room for another Step, and so may not poll."""
        return any(load.may_be_full for load in self._loads)

    async def run(self) -> None:
        """Run until `shutdown`, or until one of the Workers fails, which stops the others.

        Raises:
            Exception: What a Worker failed with.
        """
        async with AsyncExitStack() as around:
            for context in self._contexts:
                await around.enter_async_context(context())
            running = [asyncio.create_task(worker.run()) for worker in self._workers]
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            await self.shutdown()
            await asyncio.gather(*running)

    async def shutdown(self) -> None:
        """Stop polling at once, everywhere, and return when what runs has ended."""
        await asyncio.gather(*(worker.shutdown() for worker in self._workers))

    async def __aenter__(self) -> Self:
        """Run beside the block."""
        self._running = asyncio.create_task(self.run())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Stop; raise what a Worker failed with."""
        await self.shutdown()
        if self._running is not None:
            await self._running
