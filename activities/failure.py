"""How an activity says that it failed: one exception, made of a `RunError`."""

from datetime import timedelta

from temporalio.exceptions import ApplicationError

from perdure.runs.errors import RunError


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
    )
