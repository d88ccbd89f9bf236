"""Threads of tools that never end take nothing from those that do."""

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from perdure.activities.threads import MAX_LEFT_BEHIND, Threads, WorkerBusy
from tests.harness.engine import soon

LIMIT_S = 10.0
COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("COLOUR")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set when the test is over, however it ends."""
    event = threading.Event()
    yield event
    event.set()


async def left_behind(threads: Threads, released: threading.Event, count: int) -> None:
    """Leave so many threads behind."""
    started = threading.Semaphore(0)

    def wait() -> None:
        started.release()
        released.wait()

    tasks = [asyncio.create_task(threads.run(wait, "stuck")) for _ in range(count)]
    for _ in tasks:
        assert await asyncio.to_thread(started.acquire, timeout=LIMIT_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_function_is_run_aside_in_the_context_of_its_caller() -> None:
    COLOUR.set("blue")
    found = await Threads().run(lambda: (COLOUR.get(), threading.current_thread().name), "aside")
    assert found == ("blue", "aside")


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (ValueError("x"), ValueError),
        (StopIteration(1), RuntimeError),
        (SystemExit(3), RuntimeError),
        (asyncio.CancelledError(), RuntimeError),
        (GeneratorExit(), RuntimeError),
    ],
)
async def test_what_it_raises_reaches_the_caller_and_stops_nothing_else(
    raised: BaseException, seen: type[Exception]
) -> None:
    def fail() -> None:
        raise raised

    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(seen, match=type(raised).__name__ if seen is RuntimeError else "x"):
            await Threads().run(fail, "failing")


async def test_there_is_room_beside_all_that_were_left_behind_up_to_a_number(
    released: threading.Event,
) -> None:
    threads = Threads()

    async def all_ended() -> bool:
        return not threads.left_behind

    await left_behind(threads, released, MAX_LEFT_BEHIND - 1)
    async with asyncio.timeout(LIMIT_S):
        assert await threads.run(lambda: "alive", "next") == "alive"
        await left_behind(threads, released, 1)
        with pytest.raises(WorkerBusy):
            await threads.run(lambda: "alive", "next")
        released.set()
        await soon(all_ended)
        assert await threads.run(lambda: "alive", "next") == "alive"


async def test_threads_keep_no_process_alive() -> None:
    found = await Threads().run(threading.current_thread, "aside")
    assert found.daemon
