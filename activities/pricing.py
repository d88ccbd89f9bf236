"""What a model call cost, from one's own prices or the maintained list of `genai-prices`."""

from collections.abc import Mapping

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

    def priced(self, usage: ModelUsage, asked: str) -> ModelUsage:
        """Return the usage with its cost in USD, or marked as unpriced where no price is known."""
        own = self._own.get(usage.model) or self._own.get(asked)
        if own is not None:
            return usage.model_copy(update={"cost": own.cost_of(usage)})
        details = usage.input_tokens_details
        try:
            price = calc_price(
                Usage(
                    input_tokens=usage.input_tokens,
                    cache_read_tokens=details.cached_tokens,
                    cache_write_tokens=details.cache_write_tokens,
                    output_tokens=usage.output_tokens,
                ),
                model_ref=usage.model,
            )
        except (LookupError, ValueError):
            # ValueError: a provider reported more cached tokens than input tokens.
            return usage.model_copy(update={"unpriced_calls": usage.model_calls})
        return usage.model_copy(update={"cost": float(price.total_price)})


def context_window(model: str) -> int | None:
    """Return how many tokens a model can read, where the list knows it."""
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    return found.context_window
