"""How an exception is told in a line of log: its type, its code, and where it was raised."""

import math
import traceback
from collections.abc import Callable
from typing import Any

from temporalio.exceptions import ApplicationError

from perdure.runs.errors import ErrorCode

MOST_FRAMES = 30
"""The innermost ones."""
DEEPEST_CAUSE = 8
MOST_ERRORS = 5
"""Of a group."""
CODES = frozenset(map(str, ErrorCode))


Words = Callable[[object], str]


def told_error(exc: BaseException, words: Words | None, depth: int = 0) -> dict[str, Any]:
    """Return what is told of an exception, and of those it comes from.

    Args:
        exc: The exception.
        words: Returns what it says; none where that is not to be told: it may quote a prompt, an
            argument, a result.
        depth: How many were told before this one.
    """
    told: dict[str, Any] = {"type": type(exc).__qualname__}
    if (code := code_of(exc)) is not None:
        told["code"] = code
    if words is not None:
        told["message"] = words(exc)
    told["frames"] = _frames(exc)
    if depth < DEEPEST_CAUSE:
        cause = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
        if cause is not None:
            told["cause"] = told_error(cause, words, depth + 1)
        if isinstance(exc, BaseExceptionGroup):
            some = exc.exceptions[:MOST_ERRORS]
            told["errors"] = [told_error(each, words, depth + 1) for each in some]
    return told


def code_of(exc: BaseException) -> str | None:
    """Return the code of an error of ours; others' codes may be anybody's words."""
    code = exc.type if isinstance(exc, ApplicationError) else getattr(exc, "code", None)
    return str(code) if isinstance(code, str) and code in CODES else None


def _frames(exc: BaseException) -> list[str]:
    # Without the lines of source, which traceback would read from disk.
    found = traceback.walk_tb(exc.__traceback__)
    places = [f"{f.f_code.co_filename}:{line} in {f.f_code.co_name}" for f, line in found]
    return places[-MOST_FRAMES:]


def text_of(value: object) -> str:
    """Return a value as text, even one that fails to say what it is."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever somebody's object raises
        return f"<{type(value).__qualname__}>"


def within(value: float) -> bool:
    """Tell whether JSON has a number for it."""
    return math.isfinite(value)
