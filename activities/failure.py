"""How an activity says that it failed: one exception, made of a `RunError`."""

import random
from collections.abc import Mapping
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from perdure.activities import metered
from perdure.runs import metrics
from perdure.runs.errors import ErrorCode, RunError
from perdure.runs.retries import JITTER, RETRIES, RetryRule

LONGEST_WAIT_S = 3600.0
"""A provider that asks for a longer wait gets a failed Run, which can be resumed then."""


NO_PROVIDER = RetryRule(max_attempts=2)
ELSEWHERE = (ErrorCode.LLM_AUTH, ErrorCode.QUOTA_EXHAUSTED, ErrorCode.MODEL_NOT_FOUND)
"""What one provider refuses whatever it is asked, and another one may not."""


class ToolProblem(Exception):
    """A tool call that has no result, for a reason with a code of its own.

    Args:
        why: What the model is told, unless it is retryable and attempts are left.
    """

    def __init__(self, why: RunError) -> None:
        super().__init__(why.message)
        self.why = why


def failed(why: RunError, *, retry_after: timedelta | None = None) -> ApplicationError:
    """Return the exception that carries `why` into the history.

    Raise it `from None`: Temporal stores the text of a cause, and a provider's exception may
    quote a key.
    """
    return ApplicationError(
        why.message,
        why.model_dump(mode="json"),
        type=why.code.value,
        non_retryable=not why.retryable,
        next_retry_delay=retry_after,
        # Ours, expected, and logged by `logged`: without this the SDK logs a traceback each time.
        category=ApplicationErrorCategory.BENIGN,
    )


def policed(
    exc: ApplicationError,
    own: Mapping[ErrorCode, RetryRule],
    failures: int,
    fallback: str | None,
) -> ApplicationError:
    """Return a model call's failure with what the retry policy makes of it.

    Args:
        exc: Made by `failed`; its delay is what the provider asked for.
        own: The agent's rules, over `RETRIES`.
        failures: Attempts that the provider has made fail, this one included.
        fallback: The model that the Run goes on with when the retries are spent, or at another
            provider where this one refuses.
    """
    why = RunError.model_validate(exc.details[0])
    asked_s = exc.next_retry_delay.total_seconds() if exc.next_retry_delay else 0.0
    rule = own.get(why.code) or RETRIES.get(why.code)
    if "content_type" in why.details:
        # No answer of a model at all: most often a wrong address, now and then a gateway that
        # starts. One more attempt tells which.
        rule = NO_PROVIDER
    why = why.model_copy(update={"attempt": activity.info().attempt})
    if not why.retryable or rule is None:
        elsewhere = fallback if why.code in ELSEWHERE else None
        return _failure(why.model_copy(update={"fallback": elsewhere}), retried_in_s=None)
    # Always told: Temporal gives up by itself when the Run's time ends before the next attempt.
    why = why.model_copy(update={"fallback": fallback})
    if asked_s > LONGEST_WAIT_S:
        waits = f"{why.message} It asks to wait for {exc.next_retry_delay}, which is too long."
        return _failure(why.model_copy(update={"message": waits}), retried_in_s=None)
    if failures >= rule.max_attempts:
        return _failure(why, retried_in_s=None)
    # Never earlier than the provider asked for.
    delay_s = asked_s or rule.delay_s(failures)
    return _failure(why, retried_in_s=delay_s * (1 + JITTER * random.random()))  # noqa: S311 - no secret


def _failure(why: RunError, retried_in_s: float | None) -> ApplicationError:
    if retried_in_s is not None:
        metered.record(metrics.ATTEMPTS_RETRIED, 1, kind="model", code=why.code.value)
    return ApplicationError(
        why.message,
        why.model_dump(mode="json"),
        type=why.code.value,
        non_retryable=retried_in_s is None,
        next_retry_delay=None if retried_in_s is None else timedelta(seconds=retried_in_s),
        category=ApplicationErrorCategory.BENIGN,
    )
