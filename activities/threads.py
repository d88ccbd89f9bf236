"""Where sync tools run: each call in a thread of its own.

A thread can't be stopped from outside. In a pool, tools that never end would use up its threads,
and in the end no sync tool could run any more. Here a thread whose call is over is left behind.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_LEFT_BEHIND = 500
"""Threads that may be left behind in one worker. One that only waits costs about 20 KB
(`tests/activities/test_threads.py` goes to this number); a container allows some thousand."""


class WorkerBusy(Exception):
    """Too many threads were left behind: something on this worker does not end."""


class Threads:
    """Runs functions in daemon threads: none of them keeps the process alive.

    Temporal bounds how many activities a worker executes at once, and so how many threads are
    waited for.

    Args:
        max_left_behind: How many threads may go on that nobody waits for any more.
    """

    def __init__(self, max_left_behind: int = MAX_LEFT_BEHIND) -> None:
        self._max_left_behind = max_left_behind
        self._left_behind: set[threading.Thread] = set()

    @property
    def left_behind(self) -> int:
        """Threads that go on though nobody waits for them any more."""
        self._left_behind = {each for each in self._left_behind if each.is_alive()}
        return len(self._left_behind)

    async def run(self, function: Callable[[], T], name: str) -> T:
        """Return what a function returns, or raise what it raises, made `harmless`.

        It has the caller's context variables.

        *Cancellation*: the thread is left behind, and its result dropped.

        Args:
            function: What to run.
            name: Of the thread: stack dumps show it.

        Raises:
            WorkerBusy: When too many threads were left behind.
        """
        if self._left_behind and self.left_behind >= self._max_left_behind:
            raise WorkerBusy(f"{len(self._left_behind)} threads of stopped tools do not end.")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        outcome = _Outcome[T]()

        def work() -> None:
            outcome.of(function)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_end, ended)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name=name, daemon=True)
        thread.start()
        try:
            await ended
        except asyncio.CancelledError:
            self._left_behind.add(thread)
            raise
        return outcome.get()


class _Outcome(Generic[T]):
    """What a function returned or raised."""

    def __init__(self) -> None:
        self._returned: list[T] = []
        self._raised: Exception | None = None

    def of(self, function: Callable[[], T]) -> None:
        try:
            self._returned.append(function())
        except BaseException as exc:  # noqa: BLE001 - else whoever waits would wait for ever
            self._raised = harmless(exc)

    def get(self) -> T:
        if self._raised is not None:
            raise self._raised
        return self._returned.pop()


def _end(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


def harmless(exc: BaseException) -> Exception:
    """Return an error in place of what would stop the worker, or be taken for something else."""
    if isinstance(exc, Exception) and not isinstance(exc, StopIteration):
        return exc
    made = RuntimeError(f"The tool raised {type(exc).__name__}: {exc}")
    made.__cause__ = exc
    return made
