"""The table: each number with its target, if it has one, and whether it is met."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.agents import RESULT_BYTES, WINDOW_TOKENS
from bench.calls import TOGETHER, Calls
from bench.history import Growth, History
from bench.pairs import Comparison
from bench.recovery import ColdStart
from bench.sessions import Idle, Talk
from bench.stopping import Cancels, middle_and_worst

KIB = 1024
MAX_BYTES_A_TURN = 4 * KIB
MAX_GROWTH = 1.1
MAX_OVERHEAD = 1.25
MIN_THROUGHPUT = 0.85
MAX_CANCEL_P50_S = 0.5
MAX_CANCEL_P99_S = 2.0
MAX_STANDBY_S = 12.0
NOTES = """\
A turn is a model call and a tool call, the last turn only a model call. History bytes are the sum
of the events' protobuf sizes, as clients read them. Ratios are medians over pairs that ran one
after the other; those of Traces are of sums, and hold within two standard errors. Runs are started
by RunManager.start_run, which first asks whether there is a worker; the model answers over real
HTTP, without latency."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None
    """None where there is no target."""


@dataclass(frozen=True)
class Memory:
    """Peak resident memory of the two workers at the end of everything, in MiB."""

    runs: float
    bare: float
    runs_idle: float
    """Of the worker of Runs before its first Run."""


def at_most(what: str, value: float, shown: str, limit: float, unit: str = "") -> Row:
    """Return a row whose value must not exceed a limit."""
    return Row(what, shown, f"<= {limit:,g}{unit}", value <= limit)


def at_least(what: str, value: float, shown: str, limit: float, unit: str = "") -> Row:
    """Return a row whose value must reach a limit."""
    return Row(what, shown, f">= {limit:,g}{unit}", value >= limit)


def history_rows(histories: Sequence[History], growths: Sequence[Growth]) -> Iterator[Row]:
    """Yield what Runs leave behind; the first history is that of a Run of a single turn."""
    alone = histories[0]
    yield Row(
        "1 turn: all of it, the tool call left out",
        f"{alone.bytes:,} B, {alone.events} events  (so much once a Run)",
    )
    for growth in growths:
        size = growth.longer
        shown = (
            f"{size.bytes / size.turns:,.0f} B, {size.events / size.turns:.1f} events  "
            f"(total {size.bytes:,} B; server says {size.server_bytes:,})"
        )
        yield at_most(
            f"{size.turns} turns: total / turns",
            size.bytes / size.turns,
            shown,
            MAX_BYTES_A_TURN,
            " B",
        )
        yield at_most(
            f"{size.turns} turns: each turn beyond {growth.shorter.turns}",
            growth.bytes_a_turn,
            f"{growth.bytes_a_turn:,.0f} B, {growth.events_a_turn:.1f} events",
            MAX_BYTES_A_TURN,
            " B",
        )
    first, last = growths[0], growths[-1]
    short, long = first.longer, last.longer
    totals = (long.bytes / long.turns) / (short.bytes / short.turns)
    yield at_most(
        f"total / turns at {long.turns} over that at {short.turns}",
        totals,
        f"{totals:.3f} x",
        MAX_GROWTH,
        " x",
    )
    added = last.bytes_a_turn / first.bytes_a_turn
    yield at_most(
        f"a turn's own bytes at {long.turns} over those at {short.turns}",
        added,
        f"{added:.3f} x",
        MAX_GROWTH,
        " x",
    )


def alone_rows(compared: Comparison, exchange_s: float) -> Iterator[Row]:
    """Yield what a single Run takes, turn by turn."""
    turns = compared.turns
    low, high = compared.middle_half
    yield Row("a turn of a Run", _ms(compared.median_of(lambda p: p.runs.wall_s) / turns))
    yield Row("2 empty activities", _ms(compared.median_of(lambda p: p.bare.wall_s) / turns))
    yield at_most(
        "Run over bare",
        compared.ratio,
        f"{compared.ratio:.2f} x  (half of {len(compared.pairs)} pairs: {low:.2f} to {high:.2f})",
        MAX_OVERHEAD,
        " x",
    )
    without = compared.median_of(
        lambda p: (p.runs.wall_s - turns * exchange_s) / p.bare.wall_s,
    )
    yield Row(
        "Run over bare, less what the model server takes",
        f"{without:.2f} x  ({_ms(exchange_s)} for HTTP alone)",
    )
    yield Row("worker CPU a turn", _cpu(compared, turns))


def together_rows(compared: Comparison) -> Iterator[Row]:
    """Yield what a worker gets through."""
    many = compared.executions
    low, high = compared.middle_half
    rate = 1 / compared.ratio
    ours = compared.median_of(lambda p: many / p.runs.wall_s)
    bare = compared.median_of(lambda p: many / p.bare.wall_s)
    yield Row("Runs a second", f"{ours:.1f}")
    yield Row("bare workflows a second", f"{bare:.1f}")
    yield at_least(
        "Runs over bare",
        rate,
        f"{rate:.2f} x  (half of {len(compared.pairs)} pairs: {1 / high:.2f} to {1 / low:.2f})",
        MIN_THROUGHPUT,
        " x",
    )
    yield Row("worker CPU a Run", _cpu(compared, many))


def memory_rows(memory: Memory) -> Iterator[Row]:
    """Yield what the worker processes took."""
    yield Row(
        "worker of Runs, peak", f"{memory.runs:.0f} MiB  ({memory.runs_idle:.0f} before any Run)"
    )
    yield Row("worker of bare workflows, peak", f"{memory.bare:.0f} MiB")


def stopping_rows(took: Cancels) -> Iterator[Row]:
    """Yield what a cancel takes."""
    for what, values in (
        ("cancel until the Run has ended", took.until_ended),
        ("cancel until the model's connection is closed", took.until_closed),
    ):
        p50, p99 = middle_and_worst(values)
        yield at_most(f"{what}, p50", p50, f"{p50:.2f} s", MAX_CANCEL_P50_S, " s")
        shown = f"{p99:.2f} s  (of {len(values)})"
        yield at_most(f"{what}, p99", p99, shown, MAX_CANCEL_P99_S, " s")


def recovery_rows(by_standby: Sequence[float], cold: ColdStart) -> Iterator[Row]:
    """Yield what the death of a worker costs."""
    worst = max(by_standby)
    yield at_most(
        "kill -9 in a model call until a standby repeats it",
        worst,
        f"{worst:.1f} s  (longest of {len(by_standby)}; median {median(by_standby):.1f} s)",
        MAX_STANDBY_S,
        " s",
    )
    yield Row(
        f"turn {cold.turns} of a Run on a worker that has just started",
        f"{cold.from_ready_s:.2f} s  ({cold.from_start_s:.2f} s with the start of Python)",
    )
    yield Row("that worker, peak", f"{cold.peak_mib:.0f} MiB  ({cold.idle_mib:.0f} before any Run)")


def session_rows(talk: Talk, idle: Idle) -> Iterator[Row]:
    """Yield what a conversation adds to its Runs, and what one costs that is not going on."""
    yield Row(
        "history a Run, its own and its Session's",
        f"{talk.late_bytes:,.0f} B  (of the last quarter of {talk.runs})",
    )
    growth = talk.late_bytes / talk.early_bytes
    yield at_most(
        "the same over that in the second quarter", growth, f"{growth:.2f} x", MAX_GROWTH, " x"
    )
    yield Row("start of a Run in a Session over one without", f"{talk.start_ratio:.1f} x")
    yield Row("worker's memory, grown in that", f"{talk.grown_mib:.0f} MiB")
    yield Row("worker's memory an idle Session", f"{idle.kib_each:.0f} KiB  (of {idle.sessions:,})")
    yield Row("worker's CPU with all of them idle", f"{idle.cpu_share:.1%} of a core")


def call_rows(calls: Calls) -> Iterator[Row]:
    """Yield what a tool call costs, by what executes it."""
    for kind, cost in calls.costs.items():
        what = f"a turn with one call, executed by: {kind}"
        if kind == TOGETHER:
            what = f"one of {calls.calls} calls of functions in one turn"
        low, high = cost.middle_half
        spread = f"half of the rounds: {low:.2f} to {high:.2f}; {_ms(cost.seconds)}"
        yield Row(what, f"{cost.ratio:.2f} x  ({spread})")
        yield Row("  history that it adds", f"{cost.bytes:,.0f} B, {cost.events:.1f} events")


def calls_section(calls: Calls) -> tuple[str, list[Row]]:
    """Return the rows about tool calls, under their heading."""
    title = f"Tool calls, {calls.rounds} Runs of {calls.calls} of each kind; 1 x is the first row"
    return title, list(call_rows(calls))


def sections(
    histories: tuple[Sequence[History], Sequence[Growth]],
    alone: tuple[Comparison, float],
    together: tuple[Comparison, int],
    memory: Memory,
    trouble: tuple[Cancels, Sequence[float], ColdStart],
    talked: tuple[Talk, Idle],
) -> list[tuple[str, list[Row]]]:
    """Return all rows under their headings."""
    compared, concurrent = together
    cancels, by_standby, cold = trouble
    return [
        (
            f"History, tool results of {RESULT_BYTES:,} bytes",
            list(history_rows(*histories)),
        ),
        (f"One Run of {alone[0].turns} turns at a time", list(alone_rows(*alone))),
        (
            f"{compared.executions} Runs of {compared.turns} turns, {concurrent} at a time",
            list(together_rows(compared)),
        ),
        ("Memory", list(memory_rows(memory))),
        ("Cancel, at random moments", list(stopping_rows(cancels))),
        ("Death of a worker", list(recovery_rows(by_standby, cold))),
        (f"Sessions, a window of {WINDOW_TOKENS:,} tokens", list(session_rows(*talked))),
    ]


def show(machine: Sequence[str], titled: Sequence[tuple[str, list[Row]]]) -> None:
    """Print the table to standard output."""
    console = Console(width=140, highlight=False)
    for line in machine:
        console.print(line, markup=False)
    table = Table("", "measured", "target", "")
    for title, rows in titled:
        table.add_section()
        table.add_row(f"[bold]{title}")
        for row in rows:
            verdict = {True: "pass", False: "[bold]MISS", None: ""}[row.met]
            table.add_row(f"  {row.what}", row.measured, row.target, verdict)
    console.print(table)
    console.print(NOTES)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _cpu(compared: Comparison, units: int) -> str:
    def each(seconds: Callable[[], float]) -> str:
        return _ms(seconds() / units)

    ours = each(lambda: compared.median_of(lambda p: p.runs.worker_cpu_s))
    bare = each(lambda: compared.median_of(lambda p: p.bare.worker_cpu_s))
    ratio = compared.median_of(lambda p: p.runs.worker_cpu_s / p.bare.worker_cpu_s)
    return f"{ours}  (bare: {bare}; {ratio:.2f} x)"
