"""What a check finds."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from perdure.runs.errors import PerdureError
from perdure.runs.frozen import Frozen

Verdict = Literal["ok", "warn", "fail", "unknown"]
"""`unknown`: it can't be known from here, or there was nothing to look at."""


class Finding(Frozen):
    """What one check found."""

    check: str
    """Of what: one or two words."""
    verdict: Verdict
    message: str
    """One sentence."""
    hint: str = ""
    """How to mend it."""


Check = Callable[[], Coroutine[Any, Any, list[Finding]]]

T = TypeVar("T")


def ok(check: str, message: str) -> Finding:
    """Return that all is well."""
    return Finding(check=check, verdict="ok", message=message)


def warn(check: str, message: str, hint: str) -> Finding:
    """Return that something works, but not well, or not for long."""
    return Finding(check=check, verdict="warn", message=message, hint=hint)


def fail(check: str, message: str, hint: str) -> Finding:
    """Return that something has to be mended."""
    return Finding(check=check, verdict="fail", message=message, hint=hint)


def failed(check: str, exc: PerdureError) -> Finding:
    """Return that something has to be mended, as an error of ours says."""
    return fail(check, exc.message, exc.hint)


def unknown(check: str, message: str, hint: str = "") -> Finding:
    """Return that it can't be known."""
    return Finding(check=check, verdict="unknown", message=message, hint=hint)


async def in_thread(function: Callable[[], T]) -> T:
    """Call what blocks, in a thread that nobody waits for when it takes too long.

    asyncio's own threads are waited for at the end of the process: for minutes, where a name
    server is silent.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def told(value: T | None, exc: BaseException | None) -> None:
        if result.done():
            return
        if exc is not None:
            result.set_exception(exc)
        else:
            result.set_result(value)  # type: ignore[arg-type]

    def call() -> None:
        value, raised = None, None
        try:
            value = function()
        except Exception as exc:  # noqa: BLE001 - it is raised where it is waited for
            raised = exc
        if not loop.is_closed():
            loop.call_soon_threadsafe(told, value, raised)

    threading.Thread(target=call, daemon=True).start()
    return await result
