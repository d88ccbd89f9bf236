"""The current time anywhere, for a model that has no clock."""

from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from perdure.agents.tool import tool

MAX_SUGGESTIONS = 3
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""Not `strftime`: that would speak the language of the machine."""


@tool(effect="read")
def current_time(timezone: str = "UTC") -> str:
    """Tell the current date, time and weekday in a time zone.

    Args:
        timezone: An IANA time zone name, such as "Europe/Berlin" or "America/New_York".

    Returns:
        The time in ISO 8601 with its offset from UTC, then the weekday and the zone, such as
        "2025-06-01T14:30:05+02:00 (Sunday, Europe/Berlin)".

    Raises:
        ValueError: There is no such time zone.
    """
    return _told(datetime.now(UTC), _zone_name(timezone))


def _told(moment: datetime, zone: str) -> str:
    local = moment.astimezone(ZoneInfo(zone))
    weekday = _WEEKDAYS[local.weekday()]
    return f"{local.isoformat(timespec='seconds')} ({weekday}, {zone})"


def _zone_name(timezone: str) -> str:
    """Return the proper spelling of a zone name.

    The name is looked up in the list of zones, never used as a path: the time zone database is
    a folder, and the name comes from a model.
    """
    zones = _zones()
    wanted = timezone.strip().replace(" ", "_").lower()
    if wanted in zones:
        return zones[wanted]
    message = f"There is no time zone {timezone[:100]!r}."
    if similar := _similar(wanted[:100], zones):
        message += f" Did you mean {' or '.join(similar)}?"
    raise ValueError(message)


def _similar(wanted: str, zones: dict[str, str]) -> list[str]:
    """Return zones with a similar name, or of a city with a similar name."""
    cities: dict[str, str] = {}
    for key in sorted(zones):
        cities.setdefault(key.rpartition("/")[2], zones[key])
    candidates = zones | cities
    city = wanted.rpartition("/")[2]
    close = [
        *get_close_matches(wanted, candidates, MAX_SUGGESTIONS, cutoff=0.7),
        *get_close_matches(city, cities, MAX_SUGGESTIONS, cutoff=0.8),
    ]
    return list(dict.fromkeys(candidates[key] for key in close))[:MAX_SUGGESTIONS]


@cache
def _zones() -> dict[str, str]:
    """Return all zone names, each by its lower-case form. Reads the disk once."""
    return {name.lower(): name for name in available_timezones()}
