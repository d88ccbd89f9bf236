"""What lines of log say of the Step that they come from, and that its attempt failed.

Lines get the ids of what they come from by themselves, whoever logs: those that Temporal knows from
its own context, the rest from structlog's context variables, which are set here.
"""

import logging
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure.sessions import contract as sessions

log = logging.getLogger(__name__)

NAMED = ("step", "agent", "session_id", "run_id")
"""What is taken from the input of an activity that has it."""


class Logged(Interceptor):
    """Binds the ids of each activity, and logs its failures: one line for each attempt."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Return what stands before an activity."""
        return _Logged(next)


class _Logged(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        request = input.args[0] if input.args else None
        found = {name: getattr(request, name, None) for name in NAMED}
        # Not taken back: every activity is a task of its own, and the SDK logs at its end.
        structlog.contextvars.bind_contextvars(
            **{name: value for name, value in found.items() if value is not None}
        )
        try:
            return await super().execute_activity(input)
        except ApplicationError as exc:
            # Of others, which are nobody's intention, the SDK tells.
            if exc.category is ApplicationErrorCategory.BENIGN and exc.type != sessions.GOES_ON:
                _tell(exc)
            raise


def _tell(exc: ApplicationError) -> None:
    policy = activity.info().retry_policy
    most = policy.maximum_attempts if policy is not None else 0
    told: dict[str, Any] = {"code": exc.type, "content": exc.message}
    if exc.non_retryable or 0 < most <= activity.info().attempt:
        log.warning("The attempt failed, the last one.", extra=told)
        return
    if exc.next_retry_delay is not None:
        told["retry_in_s"] = round(exc.next_retry_delay.total_seconds(), 1)
    log.warning("The attempt failed; there will be another.", extra=told)
