"""The clock, with moments of our own where the hour matters."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from perdure.tools.clock import _told, current_time


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "2025-03-30T00:59:59+00:00 (Sunday, UTC)"),
        ("Europe/Berlin", "2025-03-30T01:59:59+01:00 (Sunday, Europe/Berlin)"),
        ("America/New_York", "2025-03-29T20:59:59-04:00 (Saturday, America/New_York)"),
    ],
)
def test_a_moment_is_told_in_local_time(zone: str, told: str) -> None:
    assert _told(datetime(2025, 3, 30, 0, 59, 59, tzinfo=UTC), zone) == told


def test_daylight_saving_begins_with_the_second() -> None:
    moment = datetime(2025, 3, 30, 1, 0, 0, tzinfo=UTC)
    assert _told(moment, "Europe/Berlin") == "2025-03-30T03:00:00+02:00 (Sunday, Europe/Berlin)"


def test_the_time_told_is_now() -> None:
    before = datetime.now(ZoneInfo("Asia/Kathmandu")).replace(microsecond=0)
    told, _, rest = current_time("asia/kathmandu").partition(" ")
    assert timedelta(0) <= datetime.fromisoformat(told) - before < timedelta(seconds=60)
    assert told.endswith("+05:45")
    assert rest.endswith("day, Asia/Kathmandu)")
    assert current_time().endswith(", UTC)")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Europe/Berln", "Did you mean Europe/Berlin"),
        ("Berlin", r"Did you mean Europe/Berlin\?"),
        ("new york", "America/New_York"),
        ("Germany/Berlin", "Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_suggestions(name: str, suggestion: str) -> None:
    with pytest.raises(ValueError, match=suggestion) as refused:
        current_time(name)
    assert str(refused.value).count(" or ") < 3


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/etc/localtime", "Qqqqq\0", "x" * 10**6])
def test_a_name_is_never_used_as_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="There is no time zone"):
        current_time(name)
