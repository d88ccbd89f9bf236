"""The part of the table about what Traces cost."""

from collections.abc import Sequence

from bench.report import Row, at_most
from bench.traces import CONTROL, Traced

MAX_TRACED = 1.05


def traces_section(found: Sequence[Traced], turns: int) -> tuple[str, list[Row]]:
    """Return the rows about Traces, under their heading; 1 x is a worker without."""
    rows: list[Row] = []
    for each in found:
        shown = f"{each.ratio:.3f} x  (within {each.within:.3f})"
        used = f"{each.cpu_ratio:.2f} x, {each.bytes:.2f} x of its bytes"
        if each.kind == CONTROL:
            rows.append(Row(f"a Run, {each.kind}", shown))
        else:
            rows.append(at_most(f"a Run, {each.kind}", each.ratio, shown, MAX_TRACED, " x"))
        rows.append(Row("  worker CPU, history", used))
    return f"Traces, Runs of {turns} turns; 1 x is the same without", rows
