"""The part of the table about followers of Runs."""

from collections.abc import Iterator, Sequence

from bench.report import Row, at_most
from bench.streams import Crowd, Streams

MAX_FIRST_WORD_MS = {"heartbeats": 350.0, "Redis": 50.0}
MAX_EVENT_MS = 50.0
MAX_BEHIND_S = 2.0
MAX_KIB = 100.0


def streams_section(found: Sequence[Streams]) -> tuple[str, list[Row]]:
    """Return the title and the rows."""
    return "Followers, through the gateway", [row for each in found for row in _rows(each)]


def _rows(found: Streams) -> Iterator[Row]:
    name = found.transport
    first_ms, event_ms = found.first_word_s * 1000, found.event_s * 1000
    limit = MAX_FIRST_WORD_MS[name]
    yield at_most(f"{name}: first word", first_ms, f"{first_ms:.0f} ms later", limit, " ms")
    yield at_most(f"{name}: an Event", event_ms, f"{event_ms:.0f} ms later", MAX_EVENT_MS, " ms")
    yield Row(f"{name}: 1 follower", _shown(found.alone))
    for crowd, what in ((found.one_run, "of one Run"), (found.many_runs, "of a Run each")):
        title = f"{name}: {crowd.followers} {what}"
        yield at_most(title, crowd.worst_s, _shown(crowd), MAX_BEHIND_S, " s")
    kib = found.one_run.kib_each
    yield at_most(f"{name}: memory a follower", kib, f"{kib:.0f} KiB", MAX_KIB, " KiB")


def _shown(crowd: Crowd) -> str:
    return (
        f"{crowd.middle_s:.2f} s behind, {crowd.worst_s:.2f} at worst; "
        f"the last end {crowd.last_end_s:.2f} s behind; "
        f"{crowd.calls_per_s:.0f} calls of Temporal a second"
    )
