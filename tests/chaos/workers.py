"""Worker processes that are killed, stopped and always started again."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.ledger import now

AGENTS = str(Path(__file__).with_name("agents.py"))
STOP_TIMEOUT_S = 20.0
"""Until a worker that was asked to end is killed; longer than its own grace period."""

RESTART_AFTER_S = 0.2


@dataclass
class Life:
    """One worker process."""

    pid: int
    worker: int
    born: float
    died: float | None = None
    code: int | None = None
    """As `subprocess` has it: -9 after `kill -9`."""
    is_ready: bool = False
    """Whether it takes tasks."""
    stops: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it was stopped."""


class Workers:
    """Keeps one process alive for each number.

    Args:
        environments: The environment of each worker.
        folder: Where they write what they have to say.
        program: What Python is to run.
    """

    def __init__(
        self,
        environments: Sequence[Mapping[str, str]],
        folder: Path,
        program: Sequence[str] = ("-m", "perdure.worker", "--agents", AGENTS),
    ) -> None:
        self._program = program
        self.lives: list[Life] = []
        self._environments = environments
        self._folder = folder
        self._now: dict[int, Life] = {}
        self._stopped: set[int] = set()
        self._dies_when_continued: set[int] = set()
        self._processes: set[asyncio.subprocess.Process] = set()
        self._closing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Workers"]:
        """Keep the workers alive for the length of the block."""
        keepers = [asyncio.create_task(self._keep(n)) for n in range(len(self._environments))]
        try:
            yield self
        finally:
            self._closing = True
            for life in self._now.values():
                _send(life, signal.SIGCONT)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    for process in self._processes:
                        process.terminate()
                    await asyncio.gather(*keepers)
            for process in self._processes:
                process.kill()
            await asyncio.wait(keepers)

    def kill(self, worker: int) -> None:
        """Kill a worker as `kill -9` does; one that is stopped, when it goes on."""
        if worker in self._stopped:
            self._dies_when_continued.add(worker)
        elif worker in self._now:
            self._now[worker].is_ready = False  # as of now, not of when the system tells us
            _send(self._now[worker], signal.SIGKILL)

    async def stop(self, worker: int, for_s: float) -> float:
        """Stop a worker for a while, then let it go on; return how long it stood still."""
        life = self._now.get(worker)
        if life is None or worker in self._stopped:
            return 0.0
        self._stopped.add(worker)
        since = now()
        _send(life, signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            # Noted first: it may be quicker than we are.
            life.stops.append((since, now()))
            _send(life, signal.SIGCONT)
            self._stopped.discard(worker)
        lasted_s = now() - since if life.died is None else 0.0
        if worker in self._dies_when_continued:
            self._dies_when_continued.discard(worker)
            await asyncio.sleep(0.1)  # for a moment it works with what it knew before
            self.kill(worker)
        return lasted_s

    def can_spare(self, worker: int | None) -> bool:
        """Tell whether a worker, or just any, works, and another one as well."""
        working = {n for n, life in self._now.items() if life.is_ready} - self._stopped
        return (worker is None or worker in working) and len(working) > 1

    def number_of(self, pid: int) -> int | None:
        """Return which worker a process is, if it lives."""
        return next((number for number, life in self._now.items() if life.pid == pid), None)

    async def _keep(self, number: int) -> None:
        while not self._closing:
            with (self._folder / f"worker-{number}.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, *self._program, "--child"),
                    # It ends when its standard input does: as when we are killed ourselves.
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    cwd=self._folder,
                    env=self._environments[number],
                    start_new_session=True,
                )
            self._processes.add(process)
            life = Life(process.pid, number, now())
            self.lives.append(life)
            self._now[number] = life
            assert process.stdout is not None
            life.is_ready = bool(await process.stdout.readline())
            life.code = await process.wait()
            life.died = now()
            del self._now[number]
            self._processes.discard(process)
            await asyncio.sleep(RESTART_AFTER_S)


def _send(life: Life, sent: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(life.pid, sent)
