"""What a check says of something: asked so that nothing it does can harm the worker.

A check that fails, takes too long or says something else lets nothing pass.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.exceptions import ApplicationError

from perdure.activities.redaction import Redactor
from perdure.agents.checks import VERDICTS, AnyCheck, Judge, Verdict, allow, name_of
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.messages import without_lone_surrogates

CHECK_S = 60.0
"""How long one function may take."""
STOPPING = (SystemExit, KeyboardInterrupt, StopIteration)
"""What would stop the worker, or the wait for the check."""
SHOWN_CHARS = 500
"""Of what a check raised."""

Ask = Callable[[Judge, Any], Awaitable[Verdict]]
"""Asks a judge."""


class Refused(Exception):
    """A check does not let something pass, or could not be asked.

    Args:
        check: Its name.
        reason: What it says.
    """

    def __init__(self, check: str, reason: str) -> None:
        super().__init__(reason)
        self.check = check

    def as_error(self, about: str) -> RunError:
        """Return it as the error that the Run keeps.

        Args:
            about: What was checked.
        """
        said = str(self).rstrip(".") or "no reason given"
        refused = f"The check {self.check!r} refused the {about}: {said}."
        return error(ErrorCode.GUARDRAIL, refused, details={"about": about, "check": self.check})


class JudgeUnavailable(Exception):
    """A judge's provider failed: the Step fails with its error, and is tried again.

    Args:
        cause: What the model call raised.
    """

    def __init__(self, cause: ApplicationError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def verdict_on(
    check: AnyCheck, about: str, subject: Any, redact: Redactor, ask: Ask | None = None
) -> Verdict:
    """Return what a check says.

    Args:
        check: Whom to ask.
        about: What is checked: `input`, `arguments` or `output`.
        subject: The thing itself.
        redact: Applied to what a check raises.
        ask: Asks judges, where there are any.

    Raises:
        Refused: When it says so, or could not be asked.
        JudgeUnavailable: When a judge's provider failed.
    """
    name = name_of(check)
    try:
        # A judge has the time limits of its model.
        is_judge = isinstance(check, Judge)
        async with asyncio.timeout(None if is_judge else CHECK_S):
            if isinstance(check, Judge) and ask is not None:
                said: Any = await ask(check, subject)
            else:
                said = await _called(check, subject)
    except (JudgeUnavailable, Refused):
        raise
    except TimeoutError as exc:
        raise Refused(name, f"it took longer than {CHECK_S:g} s, or timed out") from exc
    except Exception as exc:
        why = without_lone_surrogates(redact(f"{type(exc).__name__}: {exc}"))[:SHOWN_CHARS]
        raise Refused(name, f"the check failed: {why}") from exc
    verdict = allow() if said is None else said
    if not isinstance(verdict, Verdict) or verdict.kind not in VERDICTS[about]:
        raise Refused(name, redact(f"the check said {said!r}")[:SHOWN_CHARS])
    if verdict.kind == "reject":
        raise Refused(name, redact(verdict.reason))
    return verdict


async def _called(check: Any, subject: Any) -> Any:
    if inspect.iscoroutinefunction(check):
        said = check(subject)
    else:
        # Off the loop: a slow check must not hold up other Runs.
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        said = await loop.run_in_executor(None, context.run, _guarded, check, subject)
    try:
        return await said if inspect.isawaitable(said) else said
    except STOPPING as exc:
        raise _harmless(exc) from exc


def _guarded(check: Any, subject: Any) -> Any:
    try:
        return check(subject)
    except STOPPING as exc:
        raise _harmless(exc) from exc


def _harmless(exc: BaseException) -> RuntimeError:
    return RuntimeError(f"The check raised {type(exc).__name__}: {exc}")
