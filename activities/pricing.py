"""What a model call cost, from one's own prices or the maintained list of `genai-prices`."""

from collections.abc import Mapping
from contextlib import suppress

from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot

from perdure.runs.usage import ModelUsage, Price


class Prices:
    """Prices of models.

    Args:
        own: Over those of the list, by the model's name as it was asked for or as it answered.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})

    def priced(
        self,
        usage: ModelUsage,
        asked: str,
        own: Price | None = None,
        address: str | None = None,
    ) -> ModelUsage:
        """Return the usage with its cost in USD, or marked as unpriced where no price is known.

        Args:
            usage: What the provider reported.
            asked: The model, as it was asked for.
            own: What it costs under its alias.
            address: The provider's: the list has some models only there, or at another price.
        """
        price = own or self._own.get(usage.model) or self._own.get(asked)
        cost = price.cost_of(usage) if price is not None else _listed(usage, address)
        if cost is None:
            return usage.model_copy(update={"unpriced_calls": usage.model_calls})
        return usage.model_copy(update={"cost": cost})


def _listed(usage: ModelUsage, address: str | None) -> float | None:
    details = usage.input_tokens_details
    used = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=details.cached_tokens,
        cache_write_tokens=details.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    for place in _places(address):
        # ValueError: a provider reported more cached tokens than input tokens.
        with suppress(LookupError, ValueError):
            price = calc_price(used, model_ref=usage.model, provider_api_url=place)
            return float(price.total_price)
    return None


def context_window(model: str, address: str | None = None) -> int | None:
    """Return how many tokens a model can read, where the list knows it."""
    for place in _places(address):
        with suppress(LookupError):
            _, found = get_snapshot().find_provider_model(model, None, None, place)
            return found.context_window
    return None


def _places(address: str | None) -> list[str | None]:
    """Return where to look in the list: at the provider, and at all of them."""
    return [address, None] if address is not None else [None]
