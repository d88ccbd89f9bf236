"""How long a provider asks us to wait before the next attempt."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Return the wait that a response asks for, if it asks for one that can be understood."""
    for read in (_milliseconds, _seconds, _seconds_until):
        try:
            seconds = read(headers)
        except (ValueError, OverflowError):
            continue
        if 0 < seconds < timedelta.max.total_seconds():
            return timedelta(seconds=seconds)
    return None


def _milliseconds(headers: Mapping[str, str]) -> float:
    return float(headers.get("retry-after-ms", "")) / 1000


def _seconds(headers: Mapping[str, str]) -> float:
    return float(headers.get("retry-after", ""))


def _seconds_until(headers: Mapping[str, str]) -> float:
    then = parsedate_to_datetime(headers.get("retry-after", ""))
    return (then - datetime.now(then.tzinfo)).total_seconds()
