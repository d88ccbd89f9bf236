"""Rates and streams of a key: by a clock that tests turn."""

import pytest

from perdure.engine.api_keys import KeyFile
from perdure.gateway.problems import Refused
from perdure.gateway.rates import MOST_COUNTED, Rates, Streams
from tests.gateway.security.checks import bearer, speaking
from tests.gateway.security.conftest import MakeSettings
from tests.gateway.security.small import create_app


class Clock:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def test_a_minute_worth_may_come_at_once_and_then_as_much_as_flows_in() -> None:
    clock = Clock()
    rates = Rates(60, clock)
    assert [rates.wait_s("a") for _ in range(60)] == [0.0] * 60
    assert rates.wait_s("a") == 1.0
    assert rates.wait_s("b") == 0.0
    clock.s += 0.5
    assert rates.wait_s("a") == 0.5
    clock.s += 0.5
    assert rates.wait_s("a") == 0.0
    clock.s += 1_000
    assert [rates.wait_s("a") for _ in range(61)] == [*[0.0] * 60, 1.0]


def test_memory_does_not_grow_with_the_number_of_addresses() -> None:
    rates = Rates(1, Clock())
    for n in range(MOST_COUNTED * 2):
        rates.wait_s(str(n))
    assert len(rates._left) == MOST_COUNTED


async def test_a_key_that_calls_too_often_is_told_when_to_ask_again(
    keys: KeyFile, settings: MakeSettings
) -> None:
    often, _ = keys.create("often", ["read"])
    other, _ = keys.create("other", ["read"])
    app = create_app(settings())
    clock = Clock()
    app.state.access.rates = Rates(2, clock)
    async with speaking(app) as client:
        got = [await client.get("/v1/runs", headers=bearer(often)) for _ in range(3)]
        assert [each.status_code for each in got] == [200, 200, 429]
        assert (got[2].headers["retry-after"], got[2].json()["code"]) == ("30", "rate_limited")
        assert got[2].headers["content-type"] == "application/problem+json"
        assert (await client.get("/v1/runs", headers=bearer(other))).status_code == 200
        clock.s += 30
        assert (await client.get("/v1/runs", headers=bearer(often))).status_code == 200


async def test_who_tries_keys_is_slowed_down_and_nobody_else(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, _ = keys.create("ops", ["read"])
    app = create_app(settings())
    app.state.access.failures = Rates(3, Clock())
    async with speaking(app) as client:
        got = [(await client.get("/v1/runs")).status_code for _ in range(5)]
        assert got == [401, 401, 401, 429, 429]
        # Of the same address, as behind a proxy.
        assert (await client.get("/v1/runs", headers=bearer(key))).status_code == 200


async def test_a_key_holds_so_many_streams() -> None:
    streams = Streams(2)
    async with streams.held("a"), streams.held("b"), streams.held("a"):
        with pytest.raises(Refused) as caught:
            async with streams.held("a"):
                pass
        assert (caught.value.status, caught.value.code) == (429, "rate_limited")
    async with streams.held("a"), streams.held("a"):
        pass
    assert not streams._open


async def test_a_stream_is_counted_until_it_has_been_answered(
    keys: KeyFile, settings: MakeSettings
) -> None:
    key, known = keys.create("ops", ["read"])
    app = create_app(settings())
    app.state.access.streams = Streams(1)
    async with speaking(app, **bearer(key)) as client:
        path = "/v1/runs/acme:run_1/events"
        assert (await client.get(path)).status_code == 200
        assert (await client.get(path)).status_code == 200
        async with app.state.access.streams.held(known.id):
            answer = await client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
        assert int(answer.headers["retry-after"]) > 0
        assert (await client.get(path)).status_code == 200
