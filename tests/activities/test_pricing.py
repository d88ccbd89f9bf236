"""Costs: one's own prices before the list's, and nothing made up where there is none."""

import pytest

from perdure.activities.pricing import Prices, context_window
from perdure.engine.settings import Settings
from perdure.runs.usage import InputTokensDetails, ModelUsage, Price

USED = ModelUsage(
    model="mine-2026",
    input_tokens=2_000,
    output_tokens=500,
    model_calls=1,
    input_tokens_details=InputTokensDetails(cached_tokens=1_000),
)


@pytest.mark.parametrize("name", ["mine", "mine-2026"])
def test_own_prices_are_found_by_what_was_asked_for_and_by_what_answered(name: str) -> None:
    prices = Prices({name: Price(input=1, output=4, cached_input=0.1)})
    assert prices.priced(USED, "mine").cost == pytest.approx(0.001 + 0.0001 + 0.002)


def test_tokens_from_the_cache_cost_as_much_unless_told() -> None:
    price = Price(input=1, output=4)
    assert Prices({"mine": price}).priced(USED, "mine").cost == pytest.approx(0.004)


def test_a_model_without_a_price_is_marked() -> None:
    priced = Prices().priced(USED, "mine")
    assert (priced.cost, priced.unpriced_calls) == (0, 1)


def test_the_list_knows_prices_and_windows() -> None:
    known = USED.model_copy(update={"model": "gpt-5-mini"})
    assert Prices().priced(known, "gpt-5-mini").cost > 0
    assert (context_window("gpt-5-mini") or 0) > 100_000
    assert context_window("mine") is None


def test_prices_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_PRICES", '{"mine": {"input": 1, "output": 4}}')
    assert Settings().prices == {"mine": Price(input=1, output=4)}
