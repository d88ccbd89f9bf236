"""A worker is judged by what Temporal saw of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.api.enums.v1 import TaskQueueType

from perdure import Agent
from perdure.engine import watch as module
from perdure.engine.roles import Duty, duties
from perdure.engine.watch import Watch
from perdure.runs.errors import EngineUnavailable
from tests.harness.engine import Engine, soon


@asynccontextmanager
async def watching(engine: Engine, identity: str, give_up_s: float = 600) -> AsyncIterator[Watch]:
    watch = Watch(engine.client, everything(engine), identity, give_up_s)
    looking = asyncio.create_task(watch.run())
    yield watch
    looking.cancel()


def everything(engine: Engine) -> list[Duty]:
    return duties(engine.settings, ())


async def identity_of_poller(engine: Engine) -> str:
    """Return under which name the engine's worker polls."""
    found: list[str] = []

    async def seen() -> bool:
        found[:] = [each.identity for each in await pollers(engine)]
        return bool(found)

    await soon(seen)
    return found[0]


async def pollers(engine: Engine) -> list:  # type: ignore[type-arg]
    request = module.DescribeTaskQueueRequest(
        namespace=engine.client.namespace,
        task_queue=module.TaskQueue(name=engine.task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    return list((await engine.client.workflow_service.describe_task_queue(request)).pollers)


async def test_a_worker_works_once_temporal_has_seen_it_poll(engine: Engine) -> None:
    async with (
        engine.serving(Agent(name="a")),
        watching(engine, await identity_of_poller(engine)) as watch,
    ):
        async with asyncio.timeout(20):
            await watch.polling.wait()
        assert watch.problem is None
        watch.drain()
        assert watch.problem == "It is being stopped."


async def test_another_workers_polls_prove_nothing(engine: Engine) -> None:
    async with engine.serving(Agent(name="a")):
        await identity_of_poller(engine)
        watch = Watch(engine.client, everything(engine), "somebody else", give_up_s=0.3)
        with pytest.raises(EngineUnavailable, match=r"for 0\.3 s: Temporal has not seen it poll"):
            await watch.run()
        assert not watch.polling.is_set()


async def test_a_worker_whose_polls_have_stopped_is_found_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An idle worker's poll stands for almost a minute: with less patience it looks stopped.
    monkeypatch.setattr(module, "POLLS_LAST_S", 0.5)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)
    async with (
        engine.serving(Agent(name="a")),
        watching(engine, await identity_of_poller(engine)) as watch,
    ):

        async def found_out() -> bool:
            return "has not seen it poll for" in (watch.problem or "")

        await soon(found_out)


async def test_a_worker_has_to_poll_everything_that_its_role_says(engine: Engine) -> None:
    only = engine.settings.model_copy(update={"worker_role": "workflows"})
    whole, engine.settings = engine.settings, only
    async with engine.serving():
        identity = await identity_of_poller(engine)
        async with asyncio.timeout(20):
            watch = Watch(engine.client, duties(only, ()), identity, give_up_s=600)
            looking = asyncio.create_task(watch.run())
            await watch.polling.wait()
            looking.cancel()
        watch = Watch(engine.client, duties(whole, ()), identity, give_up_s=0.3)
        with pytest.raises(EngineUnavailable, match=r"not seen it poll .* for activities"):
            await watch.run()


async def test_a_worker_that_has_no_room_for_a_step_need_not_poll(engine: Engine) -> None:
    watch = Watch(engine.client, everything(engine), "busy", 0.3, lambda: True)
    looking = asyncio.create_task(watch.run())
    async with asyncio.timeout(20):
        await watch.polling.wait()
    assert watch.problem is None
    looking.cancel()
