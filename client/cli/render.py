"""Runs for people: what a terminal shows. Text of models is never read as markup."""

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.client.cli.words import SHOWN_CHARS, short, visible
from perdure.client.follow import PendingStep
from perdure.client.listing import RunList
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, WaitingOn
from perdure.runs.steps import Step

STYLES = {
    RunStatus.PENDING: "yellow",
    RunStatus.RUNNING: "cyan",
    RunStatus.COMPLETED: "green",
    RunStatus.FAILED: "red",
    RunStatus.CANCELLED: "magenta",
    RunStatus.TIMEOUT: "red",
}
MARKS = {"running": "…", "completed": "✓", "failed": "✗", "cancelled": "-"}
SHOWN_STEPS = 20
"""Steps in a live view: the latest; a taller one would not fit a terminal."""


def run_view(run: Run, pending: list[PendingStep] | None = None, *, live: bool = False) -> Group:
    """Return a Run: a headline, its Steps, its output or error.

    Args:
        run: What to show.
        pending: Steps under way, with what they have brought so far.
        live: Show only the latest Steps, and how long the Run has been going on.
    """
    parts: list[RenderableType] = [headline(run)]
    if run.status is RunStatus.PENDING and run.waiting_on is None:
        parts.append(Text("Waiting for a worker to take it.", style="yellow"))
    if run.waiting_on is not None:
        parts.append(Text(waiting(run.waiting_on, run.run_id), style="yellow"))
    elif run.pause_reason is not None:
        parts.append(Text("Pausing: what is in flight ends first.", style="yellow"))
    parts.append(steps_table(run, {each.step: each for each in pending or ()}, live))
    if run.output:
        parts.append(Padding(Text(visible(run.output)), (1, 0)))
    if run.error is not None:
        parts.append(Text(visible(f"{run.error.code}: {run.error}"), style="red"))
    return Group(*parts)


def waiting(on: WaitingOn, run_id: str) -> str:
    """Return what a Run waits for, and how it goes on."""
    if on.type == "queue":
        place = f", place {on.queue_position}" if on.queue_position else ""
        return f"Waiting for its turn{place}."
    if on.type == "limit":
        return f"Waiting: {on.detail} Raise it: perdure limits {run_id} NAME=NUMBER"
    if on.type == "pause":
        why = f": {on.detail}" if on.detail else ""
        return f"Waiting: paused{why}. Let it go on: perdure unpause {run_id}"
    return f"Waiting: {on.type}, {on.detail}"


def headline(run: Run) -> Text:
    """Return one line: id, status, turn, tokens, cost, time."""
    line = Text(run.run_id, style="bold")
    line.append(f"  {run.status}", style=STYLES[run.status])
    if run.stop_reason is not None:
        line.append(f" ({run.stop_reason})")
    line.append(f"  {run.agent}  turn {run.turn}  {tokens(run)}  {cost(run)}  {elapsed(run)}")
    return line


def tokens(run: Run) -> str:
    """Return the tokens of a Run, marked where a part is unknown."""
    return f"{run.total_tokens:,}{'' if run.usage.complete else '+'} tokens"


def cost(run: Run) -> str:
    """Return the cost of a Run, or that no price is known."""
    calls, unpriced = run.usage.model_calls, run.usage.unpriced_calls
    if calls and calls == unpriced:
        return "no price known"
    return f"${run.total_cost:.4f}{'+' if unpriced else ''}"


def elapsed(run: Run) -> str:
    """Return how long a Run took, or has taken so far, in seconds."""
    end = run.completed_at or datetime.now(UTC)
    return f"{(end - (run.started_at or run.created_at)).total_seconds():.1f} s"


def steps_table(run: Run, pending: dict[int, PendingStep], live: bool) -> Table:
    """Return the Steps of a Run, one a row, and between them what people said meanwhile."""
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column(justify="right", style="dim")
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    shown = run.steps[-SHOWN_STEPS:] if live else run.steps
    if len(shown) < len(run.steps):
        table.add_row("", "", "", Text(f"{len(run.steps) - len(shown)} earlier Steps"), "")
    else:
        _add_told(table, run, 0)
    for step in shown:
        used = f"{step.usage.total_tokens:,} tokens" if step.usage else ""
        what = Text(visible(_said(run, step, pending.get(step.number))))
        table.add_row(str(step.number), MARKS[step.status], Text(visible(step.name)), what, used)
        _add_told(table, run, step.number)
    return table


def _add_told(table: Table, run: Run, after_step: int) -> None:
    for each in run.follow_ups:
        if each.after_step == after_step:
            table.add_row("", ">", "message", Text(short(each.text)), "")


def steps_list(run: Run) -> Table:
    """Return the Steps of a Run with what a fork, or a bill, needs to know of each."""
    table = Table(box=None, pad_edge=False)
    for title in ("STEP", "TURN", "KIND", "NAME", "STATUS", "ATTEMPT", "TOKENS", "TIME", "WHAT"):
        right = title in ("STEP", "TURN", "ATTEMPT", "TOKENS", "TIME")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "WHAT")
    for step in run.steps:
        kind = step.kind if step.purpose == "turn" else f"{step.kind}: {step.purpose}"
        copied = " (taken over)" if step.number <= run.copied_steps else ""
        table.add_row(
            str(step.number),
            str(step.turn),
            kind,
            Text(visible(step.name)),
            step.status + copied,
            str(step.attempt),
            f"{step.usage.total_tokens:,}" if step.usage else "",
            _took(step),
            Text(visible(_said(run, step, None))),
        )
    return table


def _took(step: Step) -> str:
    if step.started_at is None or step.completed_at is None:
        return ""
    return f"{(step.completed_at - step.started_at).total_seconds():.2f} s"


def _said(run: Run, step: Step, under_way: PendingStep | None) -> str:
    if step.error is not None:
        kept = f" after “{short(step.text)}”" if step.text else ""
        return f"{step.error.code}: {step.error.message}{kept}"
    if under_way is not None and step.status == "running":
        return _under_way(under_way)
    if step.kind == "model":
        asked = [call for call in run.tool_calls if call.model_step == step.number]
        calls = ", ".join(f"{call.name}({call.arguments})" for call in asked)
        return short(" ".join(part for part in (step.text, calls and f"→ {calls}") if part))
    call = next((c for c in reversed(run.tool_calls) if c.step == step.number), None)
    return short(call.result or call.arguments) if call else ""


def _under_way(step: PendingStep) -> str:
    if step.next_attempt_at is not None:
        wait_s = (step.next_attempt_at - datetime.now(UTC)).total_seconds()
        return f"attempt {step.attempt} in {max(wait_s, 0):.0f} s, after: {step.last_failure}"
    return progress(step) or step.partial_text[-SHOWN_CHARS:]


def progress(step: PendingStep) -> str:
    """Return what a tool says of how far it is, in one line."""
    part = "" if step.fraction is None else f"{step.fraction:.0%}"
    return " ".join(each for each in (part, short(step.message)) if each)


def runs_table(found: RunList) -> Table:
    """Return a page of Runs, one a row."""
    table = Table(box=None, pad_edge=False)
    for title in ("RUN", "STATUS", "AGENT", "SESSION", "CREATED", "TOKENS"):
        table.add_column(title, justify="right" if title == "TOKENS" else "left", no_wrap=True)
    for each in found.runs:
        created = each.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        status = Text(each.status, style=STYLES[each.status])
        if each.waiting_on is not None:
            status.append(f" ({each.waiting_on})")
        if each.queue_position is not None:
            status.append(f" (place {each.queue_position})")
        used = f"{each.total_tokens:,}" if each.status.is_terminal else ""
        table.add_row(each.run_id, status, each.agent, each.session_id or "", created, used)
    return table
