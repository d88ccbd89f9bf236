"""Saying one thing, once, and following its Run; Ctrl-C meanwhile cancels the Run."""

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from perdure.client.manager import RunManager
from perdure.client.sessions import SessionHandle
from perdure.runs.errors import EngineUnavailable, PerdureError
from perdure.runs.limits import Limits
from perdure.runs.run import Run
from perdure.sessions.admission import OnBusy
from perdure.sessions.contract import StartedRun

SAY_FOR_S = 60.0
"""How long a message is said again and again to a server that does not answer."""
SAY_EVERY_S = 1.0
CANCEL_REASON = "Ctrl-C in a chat"


@dataclass(frozen=True)
class Message:
    """What a person says, and to whom. With its key it is said once, however often it is sent."""

    text: str
    agent: str
    model: str | None
    limits: Limits
    key: str = field(default_factory=lambda: f"chat-{secrets.token_hex(16)}", compare=False)


class Turn:
    """One Run of the conversation: begun here, or joined.

    Ctrl-C cancels it; once more cancels the task that waits for it, and leaves it to itself.

    Args:
        manager: Starts and cancels.
        follow: Waits for the end of a Run, and shows it.
        tell: Shows a line to the person.
    """

    def __init__(
        self,
        manager: RunManager,
        follow: Callable[[str], Awaitable[Run]],
        tell: Callable[[str], None],
    ) -> None:
        self._manager = manager
        self._follow = follow
        self._tell = tell
        self.run_id: str | None = None
        """The Run, as soon as one is known to have begun."""
        self._task: asyncio.Task[object] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self.was_interrupted = False

    async def say(self, session: SessionHandle, message: Message, on_busy: OnBusy) -> Run:
        """Start the Run of a message, and follow it.

        Raises:
            PerdureError: As `SessionHandle.start_run`.
        """
        with self._listening_for_ctrl_c():
            started = await self._started(session, message, on_busy)
            return await self._followed(started.run_id)

    async def join(self, run_id: str) -> Run:
        """Follow a Run that goes on already."""
        with self._listening_for_ctrl_c():
            return await self._followed(run_id)

    async def _started(
        self, session: SessionHandle, message: Message, on_busy: OnBusy
    ) -> StartedRun:
        clock = asyncio.get_running_loop().time
        until, told = clock() + SAY_FOR_S, False
        while True:
            try:
                return await session.start_run(
                    message.agent,
                    message.text,
                    model=message.model,
                    limits=message.limits,
                    on_busy=on_busy,
                    idempotency_key=message.key,
                )
            except EngineUnavailable:
                if self.was_interrupted or clock() > until:
                    raise
            if not told:
                self._tell("Temporal does not answer; trying again …")
            told = True
            await asyncio.sleep(SAY_EVERY_S)

    async def _followed(self, run_id: str) -> Run:
        self.run_id = run_id
        if self.was_interrupted:
            self._cancel(run_id)
        try:
            return await self._follow(run_id)
        finally:
            if self._cancelling is not None:
                self._cancelling.cancel()

    @contextlib.contextmanager
    def _listening_for_ctrl_c(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def _interrupted(self) -> None:
        if self.was_interrupted and self._task is not None:
            self._task.cancel()
            return
        self.was_interrupted = True
        if self.run_id is not None:
            self._cancel(self.run_id)
        else:
            self._tell("It is cancelled as soon as it has begun; Ctrl-C once more leaves.")

    def _cancel(self, run_id: str) -> None:
        self._tell("Cancelling … (Ctrl-C once more leaves)")
        self._cancelling = asyncio.create_task(self._told_to_stop(run_id))

    async def _told_to_stop(self, run_id: str) -> None:
        try:
            await self._manager.cancel(run_id, CANCEL_REASON)
        except PerdureError as exc:
            self._tell(str(exc))
            self.was_interrupted = False  # the next Ctrl-C tries again
