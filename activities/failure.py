"""How an activity says that it failed: one exception, made of a `RunError`."""

from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from perdure.runs.errors import RunError


def failed(why: RunError, *, retry_after: timedelta | None = None) -> ApplicationError:
    """Return the exception that carries `why` into the history, and log one line about it.

    Raise it `from None`: Temporal stores the text of a cause, and a provider's exception may
    quote a key.
    """
    activity.logger.warning("%s: %s", why.code, why.message)
    return ApplicationError(
        why.message,
        why.model_dump(mode="json"),
        type=why.code.value,
        non_retryable=not why.retryable,
        next_retry_delay=retry_after,
        # Ours, expected, and logged above: without this the SDK logs a traceback each time.
        category=ApplicationErrorCategory.BENIGN,
    )
