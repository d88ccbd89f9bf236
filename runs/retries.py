"""Which errors of a model call are tried again, how often and how soon: the one retry policy.

Temporal does the waiting, so it holds no worker slot and survives every restart. What is not in
the table is not retried: quota, credentials, invalid requests and too long conversations would
only fail again. The client library retries nothing.
"""

from typing import Annotated

from perdure.runs.errors import ErrorCode
from perdure.runs.frozen import Frozen
from pydantic import Field, PositiveFloat

MAX_ATTEMPTS = 20
"""Attempts of one model call in all. A worker's death is not counted against the provider, and
what the provider does is not counted against workers; this ends what both do together."""
JITTER = 0.2
"""Part of a delay by which it is lengthened at random, so that Runs don't come back together."""


class RetryRule(Frozen):
    """How one kind of error is retried: each delay is twice the one before."""

    max_attempts: Annotated[int, Field(gt=0, le=MAX_ATTEMPTS)]
    """Requests in all, the first one included."""
    first_s: PositiveFloat = 1.0
    longest_s: PositiveFloat = 60.0

    def delay_s(self, attempt: int) -> float:
        """Return the seconds between attempt number `attempt` and the next one."""
        return min(self.longest_s, self.first_s * 2.0 ** min(attempt - 1, 30))


RETRIES: dict[ErrorCode, RetryRule] = {
    ErrorCode.RATE_LIMITED: RetryRule(max_attempts=12),
    ErrorCode.LLM_UNAVAILABLE: RetryRule(max_attempts=10, longest_s=30.0),
    ErrorCode.STREAM_INCOMPLETE: RetryRule(max_attempts=6, longest_s=30.0),
    ErrorCode.LLM_TIMEOUT: RetryRule(max_attempts=4, longest_s=30.0),
    ErrorCode.LLM_BAD_RESPONSE: RetryRule(max_attempts=5, longest_s=10.0),
    ErrorCode.MCP_UNAVAILABLE: RetryRule(max_attempts=5, longest_s=10.0),
}
"""Overload lasts minutes: 12 attempts take 6 to 7, 10 take 2 to 3. A provider that is silent
until the time limit, or answers nonsense, is seldom better after that, and each costs."""
