"""How fast a worker calls its models: all of its Runs share one provider, and its patience.

Each model has one queue, first come, first served. A call goes out when it fits the limits of
the minute before it, and not before the moment until which the provider asked us to wait.
Nothing is retried here: Temporal owns all retries.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio.exceptions import ApplicationError

from perdure.activities.openai_chat import Answer
from perdure.activities.reported_usage import model_usage
from perdure.runs.errors import ErrorCode
from perdure.runs.limits import RateLimit

ANY_MODEL = "*"
"""The name under which the limits of all models stand that are not named."""
WINDOW_S = 60.0
"""What providers count in."""
BYTES_PER_TOKEN = 4
"""Of English text; only an estimate, put right by what the provider reports."""
FIRST_GUESS = 500
"""Tokens of an answer, before there was one."""
HOLD_S = 1.0
"""First wait after a refusal that names none, and between calls of different Runs whatever it
names: until one is answered, one at a time sees whether it goes. Doubles with each refusal."""
LONGEST_HOLD_S = 15.0
LONGEST_ASKED_S = 60.0
"""Longest that one refusal holds other Runs back; the Run itself waits as long as it was told."""


@dataclass(eq=False)
class Call:
    """One request that went out."""

    at: float
    """On the clock of the event loop."""
    tokens: int
    """As estimated, then as reported."""
    who: str = ""


class Pace:
    """Lets the model calls of one worker out, one after the other.

    Args:
        limits: By model; `*` stands for each model that is not named.
        window_s: What the limits count in; a minute.
    """

    def __init__(self, limits: Mapping[str, RateLimit], window_s: float = WINDOW_S) -> None:
        self._limits = limits
        self._window_s = window_s
        self._lanes: dict[str, Lane] = {}

    @asynccontextmanager
    async def turn(
        self, model: str, size: int, longest: int | None, answer: Answer, *, who: str = ""
    ) -> AsyncIterator[None]:
        """Wait until a request may go out; the block sends it.

        *Cancellation*: a call that waits leaves the queue, and the next one takes its place.

        Args:
            model: Whose limits count.
            size: Bytes of the request that are text, or count as such.
            longest: Tokens that the answer may have, where the agent limits them.
            answer: Filled in by the block.
            who: The Run. One alone waits only as long as the provider asks for; several that
                were refused come back one after the other.
        """
        lane = self._lane(model)
        answer.waiting = True
        call = await lane.admit(size // BYTES_PER_TOKEN, longest, who)
        answer.waiting = False
        try:
            yield
        except ApplicationError as exc:
            if exc.type == ErrorCode.RATE_LIMITED:
                asked = exc.next_retry_delay
                lane.refused(call, asked.total_seconds() if asked else None)
            else:
                lane.answered(call)  # badly, but it did not say that we ask too much
            raise
        else:
            lane.answered(call)
        finally:
            usage = model_usage(answer.usage, model)
            if usage.complete:
                lane.correct(call, usage.total_tokens, usage.output_tokens)

    def _lane(self, model: str) -> "Lane":
        if model not in self._lanes:
            limit = self._limits.get(model) or self._limits.get(ANY_MODEL) or RateLimit()
            self._lanes[model] = Lane(limit, self._window_s)
        return self._lanes[model]


class Lane:
    """The calls to one model.

    Args:
        limit: How much may go out.
        window_s: Within how many seconds.
    """

    def __init__(self, limit: RateLimit, window_s: float) -> None:
        self._limit = limit
        self._window_s = window_s
        self._turn = asyncio.Lock()  # those who wait for it get it in the order they came
        self._changed = asyncio.Event()
        self._recent: deque[Call] = deque()
        self._mean_answer = float(FIRST_GUESS)
        self._held_until = 0.0
        self._refused_at = 0.0
        self._refusals = 0
        self._latest: Call | None = None

    async def admit(self, input_tokens: int, longest: int | None, who: str = "") -> Call:
        """Wait for a turn, and count the call that takes it.

        Args:
            input_tokens: Estimated.
            longest: Tokens of the answer at most; as many as recent ones had when None.
            who: The Run.
        """
        async with self._turn:
            while True:
                tokens = input_tokens + (longest or round(self._mean_answer))
                now = _now()
                moment = max(self._fits_at(now, tokens), self._may_try_at(who))
                if moment <= now:
                    return self._counted(Call(now, tokens, who))
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(moment):
                        await self._changed.wait()

    def refused(self, call: Call, asked_s: float | None) -> None:
        """Hold all calls back: the provider said that they are too many.

        Args:
            call: The one that was refused.
            asked_s: How long the provider asked us to wait.
        """
        if not self._refusals or call.at >= self._refused_at:
            self._refusals += 1  # a call that went out before the last refusal is no news
        self._refused_at = _now()
        # What it asked of one Run for longer, others may see for themselves.
        hold_s = self._backoff_s() if asked_s is None else min(asked_s, LONGEST_ASKED_S)
        self._held_until = max(self._held_until, self._refused_at + hold_s)

    def answered(self, call: Call) -> None:
        """Go on as usual, if the call went out after the last refusal."""
        if self._refusals and call.at >= self._refused_at:
            self._refusals = 0
            self._held_until = 0.0
            self._changed.set()

    def correct(self, call: Call, tokens: int, output_tokens: int) -> None:
        """Put the estimate of a call right."""
        call.tokens = tokens
        self._mean_answer += (output_tokens - self._mean_answer) / 8
        self._changed.set()

    def _fits_at(self, now: float, tokens: int) -> float:
        """Return the moment from which a call fits, if nothing changes until then."""
        while self._recent and self._recent[0].at + self._window_s <= now:
            self._recent.popleft()
        calls = len(self._recent) + 1
        tokens += sum(call.tokens for call in self._recent)
        moment = self._held_until
        for call in self._recent:
            if self._allows(calls, tokens):
                break
            calls -= 1
            tokens -= call.tokens
            moment = max(moment, call.at + self._window_s)
        return moment

    def _allows(self, calls: int, tokens: int) -> bool:
        most, most_tokens = self._limit.requests_per_minute, self._limit.tokens_per_minute
        return (most is None or calls <= most) and (most_tokens is None or tokens <= most_tokens)

    def _counted(self, call: Call) -> Call:
        if self._limit != RateLimit():
            self._recent.append(call)
        self._latest = call
        return call

    def _may_try_at(self, who: str) -> float:
        """Return the moment from which this Run may see whether the provider answers again."""
        if not self._refusals or self._latest is None or self._latest.who == who:
            return 0.0
        return self._latest.at + self._backoff_s()

    def _backoff_s(self) -> float:
        return float(min(HOLD_S * 2 ** min(self._refusals - 1, 10), LONGEST_HOLD_S))


def _now() -> float:
    return asyncio.get_running_loop().time()
