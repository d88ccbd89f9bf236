"""The part of the table about what a Run costs a cluster."""

from bench.costs import Costs
from bench.report import KIB, Row


def costs_section(found: Costs) -> tuple[str, list[Row]]:
    """Return the title and the rows about what a Run costs a cluster."""
    rows = ", ".join(f"{n:g} {name}" for name, n in sorted(found.rows.items()))
    return f"A Run of {found.turns} turns, to those who keep the cluster", [
        Row("history", f"{found.events:g} events, {found.bytes / KIB:.1f} KiB"),
        Row("actions of Temporal", f"{found.actions:g}"),
        Row("rows that stay", rows),
        Row("rows of queues", f"{found.queued_rows:.0f}"),
        Row("database", f"{found.database_bytes / KIB:.1f} KiB"),
        Row("server's processor", f"{found.server_s * 1000:.0f} ms"),
        Row("worker's processor", f"{found.worker_s * 1000:.0f} ms"),
    ]
