"""When model calls go out: within the limits, in order, never before the provider allows it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.failure import failed
from perdure.activities.openai_chat import Answer
from perdure.activities.pace import BYTES_PER_TOKEN, Pace
from perdure.runs.errors import ErrorCode, error
from perdure.runs.limits import RateLimit
from tests.harness.clockwork import Clockwork, in_no_time

MODEL = "m"
ADMITTED_LATE_S = 1e-6
"""What floating-point sums may be off by."""


@dataclass(frozen=True)
class Asked:
    """A call, as a test wishes it."""

    at: float = 0.0
    tokens: int = 10
    lasts_s: float = 0.0
    used: int | None = None
    """Tokens that the provider reports; as many as estimated by default."""


@dataclass
class Provider:
    """Notes what goes out, and answers."""

    pace: Pace
    sent: list[tuple[float, Asked]] = field(default_factory=list)

    async def ask(self, asked: Asked) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(asked.at - loop.time())
        answer = Answer()
        body = b"x" * (asked.tokens - 1) * BYTES_PER_TOKEN
        async with self.pace.turn(MODEL, len(body), 1, answer):
            self.sent.append((loop.time(), asked))
            await asyncio.sleep(asked.lasts_s)
            used = asked.tokens if asked.used is None else asked.used
            answer.usage = {"prompt_tokens": used - 1, "completion_tokens": 1}


def sent(limit: RateLimit, calls: Sequence[Asked]) -> list[tuple[float, Asked]]:
    """Return what went out, and when."""

    async def all_of_them() -> list[tuple[float, Asked]]:
        provider = Provider(Pace({MODEL: limit}))
        await asyncio.gather(*[provider.ask(each) for each in calls])
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Clockwork)
        assert loop.rounds < 20 + 20 * len(calls), "it looks again and again instead of waiting"
        return provider.sent

    return in_no_time(all_of_them())


def asked(tokens: st.SearchStrategy[int] = st.just(10)) -> st.SearchStrategy[list[Asked]]:  # noqa: B008
    moments = st.floats(0, 200).map(lambda at: round(at, 2))
    calls = st.builds(Asked, at=moments, tokens=tokens, lasts_s=st.sampled_from([0.0, 1.0, 90.0]))
    several = st.lists(calls, max_size=40, unique_by=lambda call: call.at)
    return several.map(lambda calls: sorted(calls, key=lambda call: call.at))


@given(asked(), st.integers(1, 12))
def test_each_call_goes_out_in_order_and_as_soon_as_the_minute_before_it_allows(
    calls: list[Asked], most: int
) -> None:
    found = sent(RateLimit(requests_per_minute=most), calls)
    assert [call for _, call in found] == calls
    right: list[float] = []
    for number, call in enumerate(calls):
        free = right[number - most] + 60 if number >= most else 0.0
        right.append(max([call.at, free, *right[-1:]]))
    assert [at for at, _ in found] == pytest.approx(right, abs=ADMITTED_LATE_S)


@given(asked(st.integers(1, 120)), st.integers(50, 100))
def test_no_minute_sees_more_tokens_than_allowed_but_for_a_call_that_is_larger_by_itself(
    calls: list[Asked], most: int
) -> None:
    found = sent(RateLimit(tokens_per_minute=most), calls)
    assert [call for _, call in found] == calls
    for start, first in found:
        minute = [call for at, call in found if start <= at < start + 60 - ADMITTED_LATE_S]
        assert sum(call.tokens for call in minute) <= max(most, first.tokens)


def test_a_call_that_used_less_than_expected_lets_the_next_one_out_at_once() -> None:
    limit = RateLimit(tokens_per_minute=100)
    large, small = Asked(tokens=100, lasts_s=5, used=40), Asked(tokens=60)
    assert [at for at, _ in sent(limit, [large, small, small])] == [0, 5, 65]


def test_a_call_that_used_more_than_expected_holds_the_next_one_back() -> None:
    limit = RateLimit(tokens_per_minute=100)
    first, late = Asked(tokens=10, used=90), Asked(at=1, tokens=20)
    assert [at for at, _ in sent(limit, [first, late])] == [0, 60]


def test_answers_are_expected_to_be_as_long_as_recent_ones() -> None:
    async def moments() -> list[float]:
        pace, found = Pace({MODEL: RateLimit(tokens_per_minute=1000)}), []
        for _ in range(3):
            answer = Answer()
            async with pace.turn(MODEL, 0, None, answer):
                found.append(asyncio.get_running_loop().time())
                answer.usage = {"prompt_tokens": 0, "completion_tokens": 900}
        return found

    assert in_no_time(moments()) == [0, 60, 120]


def test_a_call_cancelled_while_it_waits_leaves_its_place_and_was_never_made() -> None:
    async def moment() -> float:
        provider = Provider(Pace({MODEL: RateLimit(tokens_per_minute=100)}))
        await provider.ask(Asked(tokens=50))
        answer = Answer()

        async def too_large() -> None:
            async with provider.pace.turn(MODEL, 400, 1, answer):
                raise AssertionError("it was sent")

        waiting = asyncio.create_task(too_large())
        behind = asyncio.create_task(provider.ask(Asked(tokens=50)))
        await asyncio.sleep(7)
        assert len(provider.sent) == 1
        waiting.cancel()
        await behind
        assert answer.waiting
        return provider.sent[1][0]

    assert in_no_time(moment()) == 7


def test_limits_of_one_model_are_not_those_of_another_and_a_star_means_all_others() -> None:
    async def moments() -> list[float]:
        limits = {"slow": RateLimit(requests_per_minute=1), "*": RateLimit(requests_per_minute=2)}
        pace, found = Pace(limits), []
        for model in ("slow", "a", "b", "a", "b", "a", "slow"):
            async with pace.turn(model, 0, 1, Answer()):
                found.append(asyncio.get_running_loop().time())
        return found

    assert in_no_time(moments()) == [0, 0, 0, 0, 0, 60, 60]


class Refusing:
    """A provider that answers 429 until some moment, and what a Run does then."""

    def __init__(self, until: float, asks_for_s: float | None) -> None:
        self.pace = Pace({})
        self.until = until
        self.asks_for_s = asks_for_s
        self.sent: list[float] = []

    async def ask(self, who: str = "") -> None:
        """Send one request, when its turn comes."""
        async with self.pace.turn(MODEL, 0, 1, Answer(), who=who):
            now = asyncio.get_running_loop().time()
            self.sent.append(now)
            await asyncio.sleep(0.05)
            if now < self.until:
                asked = None if self.asks_for_s is None else timedelta(seconds=self.asks_for_s)
                raise failed(error(ErrorCode.RATE_LIMITED, retryable=True), retry_after=asked)

    async def run(self, who: str = "") -> int:
        """Ask as Temporal's retries would; return the attempts that it took."""
        for attempt in range(1, 7):
            try:
                await self.ask(who)
            except Exception:  # noqa: BLE001 - as Temporal does
                await asyncio.sleep(self.asks_for_s or 2 ** (attempt - 1))
            else:
                return attempt
        raise AssertionError("six attempts were not enough")


@pytest.mark.parametrize("asks_for_s", [None, 0.05, 20.0])
def test_fifty_runs_survive_five_minutes_of_refusals_with_few_requests(
    asks_for_s: float | None,
) -> None:
    async def storm() -> Refusing:
        provider = Refusing(300, asks_for_s)
        await asyncio.gather(*[provider.run(f"run {n}") for n in range(50)])
        return provider

    provider = in_no_time(storm())
    during = [at for at in provider.sent if at < 300]
    assert len(during) <= 50 + 25, "the first of each, then one now and then"
    assert len(provider.sent) == len(during) + 50
    assert provider.sent[-1] <= 300 + 30 + 2, "they go on soon"


def test_nothing_goes_out_before_the_moment_that_the_provider_named() -> None:
    async def moments() -> list[float]:
        provider = Refusing(0.1, 12.5)
        with pytest.raises(Exception, match="slow down"):
            await provider.ask()
        await asyncio.gather(*[provider.ask(f"run {n}") for n in range(3)])
        return provider.sent

    # Then one goes first, and the others as soon as it is answered.
    assert in_no_time(moments()) == pytest.approx([0, 12.55, 12.6, 12.6])


@pytest.mark.parametrize("asks_for_s", [0.05, 20.0])
def test_a_run_alone_waits_as_long_as_it_is_told_and_no_longer(asks_for_s: float) -> None:
    async def moments() -> list[float]:
        provider = Refusing(asks_for_s * 2.5, asks_for_s)
        await provider.run("alone")
        return provider.sent

    gaps = [later - earlier for earlier, later in pairwise(in_no_time(moments()))]
    assert gaps == pytest.approx([asks_for_s + 0.05] * len(gaps))


def test_calls_that_were_under_way_at_a_refusal_neither_count_against_nor_for_the_provider() -> (
    None
):
    async def moments() -> list[float]:
        provider = Refusing(0.1, None)
        await asyncio.gather(*[provider.ask() for _ in range(8)], return_exceptions=True)
        await provider.ask()
        return provider.sent[8:]

    assert in_no_time(moments()) == pytest.approx([1.05]), "the first wait, not the eighth"
