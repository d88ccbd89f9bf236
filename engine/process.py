"""What our own processes have in common: they serve until they are told to stop, and say why."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn

from perdure.engine import logs
from perdure.engine.connect import leave
from perdure.engine.settings import Settings
from perdure.runs.errors import PerdureError

UNAVAILABLE = 6
"""Exit code, the one that the command line has for it."""
SIGNALLED = 128
"""Plus the signal: the exit code of a process that a signal ended."""

Serve = Callable[[asyncio.Event], Awaitable[None]]
"""Serves until the event is set."""
Masking = Callable[[Iterable[str]], Callable[[str], str]]
"""Returns what takes the given secrets out of a text."""

log = logging.getLogger("perdure")


async def run_process(serve: Serve, *, child: bool) -> NoReturn:
    """Serve until SIGINT or SIGTERM, then leave; a second one does not wait.

    Args:
        serve: Raises `PerdureError` when it can't start, or can't go on.
        child: Stop as well when whoever started us has died.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sent in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sent, _stop, stopped, sent)
    if child:
        # Whoever started us holds the other end: when that process dies, we stop.
        loop.add_reader(sys.stdin, _orphaned, stopped)
    code = 0
    try:
        await serve(stopped)
    except PerdureError as exc:
        tell_failure(exc)
        code = UNAVAILABLE
    # From within the loop: closing it would wait for every tool that ignores its cancellation.
    leave(code)


def configured(masking: Masking) -> Settings:
    """Return the settings of the environment, and log as they say.

    When one is unusable, say which, and leave.

    Args:
        masking: Keeps secrets out of everything that is logged.
    """
    try:
        settings = Settings.configured()
    except PerdureError as exc:
        logs.set_up(redact=masking(()))
        tell_failure(exc)
        leave(UNAVAILABLE)
    logs.set_up(settings.log_format, settings.log_level, masking(logs.known_secrets(settings)))
    return settings


def tell_parent(line: str) -> None:
    """Tell whoever started us that we are ready."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def tell_failure(exc: PerdureError) -> None:
    """Tell operators why the process can't start, or go on."""
    log.error("Error: %s", exc, extra={"code": exc.code})


def _stop(stopped: asyncio.Event, sent: signal.Signals) -> None:
    """Stop in order when asked once, at once when asked again."""
    if stopped.is_set():
        leave(SIGNALLED + sent)
    stopped.set()


def _orphaned(stopped: asyncio.Event) -> None:
    # An end of file stays: the loop would call us for ever.
    asyncio.get_running_loop().remove_reader(sys.stdin)
    stopped.set()
