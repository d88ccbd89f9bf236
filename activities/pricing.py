"""What a model call cost, from the maintained price list of `genai-prices`."""

from genai_prices import Usage, calc_price

from perdure.runs.usage import ModelUsage


def priced(usage: ModelUsage) -> ModelUsage:
    """Return the usage with its cost in USD, or marked as unpriced where no price is known."""
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
