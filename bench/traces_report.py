"""The part of the table about what Traces cost."""

from collections.abc import Sequence

from bench.report import Row, at_most
from bench.traces import Traced

MAX_TRACED = 1.05


def traces_section(found: Sequence[Traced], turns: int) -> tuple[str, list[Row]]:
    """Return the rows about Traces, under their heading; 1 x is a worker without."""
    rows: list[Row] = []
    for each in found:
        low, high = each.middle_half
        shown = f"{each.ratio:.3f} x  (half of {len(each.ratios)}: {low:.2f} to {high:.2f})"
        rows.append(
            at_most(f"a Run, collector {each.collector}", each.ratio, shown, MAX_TRACED, " x")
        )
        rows.append(
            Row("  worker CPU, history", f"{each.cpu_ratio:.2f} x, {each.bytes:.2f} x of its bytes")
        )
    return f"Traces, Runs of {turns} turns; 1 x is the same without", rows
