"""What a provider says that an answer used: read with nulls and nonsense as 0."""

from math import isfinite
from typing import Any

from perdure.runs.usage import InputTokensDetails, ModelUsage, OutputTokensDetails

MAX_COUNT = 10**9
"""More tokens than any one answer has: such a number is nonsense."""

TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")


def is_report(reported: Any) -> bool:
    """Tell whether JSON reports any usage, be it nonsense."""
    return isinstance(reported, dict) and any(reported.get(name) is not None for name in TOKENS)


def reports_more(reported: dict[str, Any]) -> bool:
    """Tell whether a report says anything: some send zeros until, or after, the true one."""
    return any(_count(reported, name) for name in TOKENS)


def model_usage(reported: dict[str, Any] | None, model: str) -> ModelUsage:
    """Return what the provider reported; `complete` is false when it reported nothing."""
    if reported is None:
        return ModelUsage(model=model, model_calls=1, complete=False)
    inputs = reported.get("prompt_tokens_details") or {}
    outputs = reported.get("completion_tokens_details") or {}
    return ModelUsage(
        model=model,
        model_calls=1,
        input_tokens=_count(reported, "prompt_tokens"),
        output_tokens=_count(reported, "completion_tokens"),
        input_tokens_details=InputTokensDetails(
            cached_tokens=_count(inputs, "cached_tokens"),
            cache_write_tokens=_count(inputs, "cache_write_tokens"),
        ),
        output_tokens_details=OutputTokensDetails(
            reasoning_tokens=_count(outputs, "reasoning_tokens")
        ),
    )


def is_suspect(reported: dict[str, Any] | None) -> bool:
    """Tell whether a report can't be true: an answer to no input, or counts that are none."""
    if reported is None:
        return False
    given = [reported.get(name) for name in TOKENS]
    if any(value is not None and _number(value) is None for value in given):
        return True
    return not _count(reported, "prompt_tokens")


def _count(holder: Any, name: str) -> int:
    value = _number(holder.get(name)) if isinstance(holder, dict) else None
    return value or 0


def _number(value: Any) -> int | None:
    """Return a count that may come as a number of any kind, or as text; none for nonsense."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value) if len(value) < 20 else None
    if isinstance(value, float) and isfinite(value):
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count else None
