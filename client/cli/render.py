"""Runs for people: what a terminal shows. Text of models is never read as markup."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.client.cli.actions.views import LIVE_CHARS, card, decided, subject
from perdure.client.cli.files import files_lines
from perdure.client.cli.under_way import doing
from perdure.client.cli.words import escaped, short, visible
from perdure.client.deciding import open_actions
from perdure.client.listing import RunList
from perdure.client.live.run import UnderWay
from perdure.client.tree import RunTree
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, WaitingOn
from perdure.runs.steps import Step
from perdure.runs.usage import Counts

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
DRAFT_CHARS = 4_000
"""Of an answer while it comes: the latest, as much as any terminal has room for."""


def run_view(
    run: Run,
    under_way: Mapping[int, UnderWay] | None = None,
    *,
    live: bool = False,
    below: tuple[RunTree, ...] = (),
) -> Group:
    """Return a Run: a headline, its Steps, what people are to decide, its output or error.

    Args:
        run: What to show.
        under_way: What Steps that run have brought so far, by their numbers.
        live: Show only the latest Steps, and how long the Run has been going on.
        below: The Runs that it has called and that go on.
    """
    parts: list[RenderableType] = [headline(run)]
    if run.status is RunStatus.PENDING and run.waiting_on is None:
        parts.append(Text("Waiting for a worker to take it.", style="yellow"))
    if run.waiting_on is not None:
        parts.append(Text(waiting(run.waiting_on, run.run_id), style="yellow"))
    elif run.pause_reason is not None:
        parts.append(Text("Pausing: what is in flight ends first.", style="yellow"))
    parts += files_lines(run)
    now = _Now(under_way or {}, {each.step: each for each in below})
    parts.append(steps_table(run, now, live))
    if live:
        drafts = [visible(each.draft.text()[-DRAFT_CHARS:]) for each in now.under_way.values()]
        parts += [Padding(Text(said), (1, 0, 0, 0)) for said in drafts if said]
    waits = chain(open_actions(run), *(child.waits() for child in below))
    parts.extend(card(each, chars=LIVE_CHARS if live else None) for each in waits)
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
        return f"Waiting: {visible(on.detail)} Raise it: perdure limits {run_id} NAME=NUMBER"
    if on.type == "pause":
        why = f": {visible(on.detail)}" if on.detail else ""
        return f"Waiting: paused{why}. Let it go on: perdure unpause {run_id}"
    if on.type in ("approval", "input"):
        return f"Waiting for a person to decide: {', '.join(on.action_ids)}"
    if on.type == "child":
        return f"Waiting for the Run of another agent: {on.detail}"
    return f"Waiting: {on.type}, {short(on.detail)}"


def headline(run: Run) -> Text:
    """Return one line: id, status, turn, tokens, cost, time."""
    line = Text(run.run_id, style="bold")
    line.append(f"  {run.status}", style=STYLES[run.status])
    if run.stop_reason is not None:
        line.append(f" ({run.stop_reason})")
    line.append(f"  {run.agent}  turn {run.turn}  {tokens(run.usage)}  {cost(run.usage)}")
    line.append(f"  {elapsed(run)}")
    return line


def state(tree: RunTree) -> Text:
    """Return how a Run stands, and what it waits for or why it failed."""
    if tree.status is None:
        return Text("not found", style="dim")
    line = Text(tree.status, style=STYLES[tree.status])
    if tree.actions:
        asked = ", ".join(each.action.action_id for each in tree.actions)
        line.append(f" (waits for you: {asked})", style="yellow")
    elif tree.waiting_on is not None:
        line.append(f" ({tree.waiting_on.type})")
    if tree.error is not None:
        line.append(f" {tree.error.code}: {short(tree.error.message)}", style="default")
    return line


def tokens(usage: Counts) -> str:
    """Return the tokens of a Run, marked where a part is unknown."""
    return f"{usage.total_tokens:,}{'' if usage.complete else '+'} tokens"


def cost(usage: Counts) -> str:
    """Return the cost of a Run, or that no price is known."""
    calls, unpriced = usage.model_calls, usage.unpriced_calls
    if calls and calls == unpriced:
        return "no price known"
    return f"${usage.cost:.4f}{'+' if unpriced else ''}"


def elapsed(run: Run | RunTree) -> str:
    """Return how long a Run took, or has taken so far, in seconds; nothing where none is known."""
    end = run.completed_at or datetime.now(UTC)
    begun = run.started_at or run.created_at
    return f"{(end - begun).total_seconds():.1f} s" if begun is not None else ""


@dataclass(frozen=True)
class _Now:
    """What is known of Steps that go on, by their numbers."""

    under_way: Mapping[int, UnderWay]
    below: dict[int | None, RunTree]


def steps_table(run: Run, now: _Now, live: bool) -> Table:
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
        child = now.below.get(step.number)
        running = now.under_way.get(step.number) if step.status == "running" else None
        what = doing(running) if running is not None else Text(visible(_said(run, step)))
        if step.child_run_id is not None:
            what = _called_run(step, child, what)
        used = step.usage or step.child_usage or (child.usage if child is not None else None)
        table.add_row(
            str(step.number),
            MARKS[step.status],
            Text(visible(_name(step))),
            what,
            tokens(used) if used is not None else "",
        )
        _add_decisions(table, run, step)
        _add_told(table, run, step.number)
    return table


def _called_run(step: Step, child: RunTree | None, said: Text) -> Text:
    """Return what a Step is that is a Run of its own, how that stands, and what it said."""
    what = Text(f"Run {step.child_run_id}", style="bold")
    if child is not None:
        what.append(" ").append_text(state(child))
    return what.append("  ").append_text(Text(str(said), style="not bold"))


def _add_decisions(table: Table, run: Run, step: Step) -> None:
    """Add what people decided, or are to decide, about what a model Step said and asked for."""
    actions = [step.action] if step.action is not None else []
    for call in run.tool_calls:
        if call.model_step != step.number:
            continue
        if call.action is not None:
            actions.append(call.action)
        elif call.policy.kind == "handoff" and call.status == "completed":
            gone = Text(f"goes on as the agent {call.policy.target}")
            table.add_row("", "⇒", Text(visible(call.name)), gone, "")
    for action in actions:
        how = "waits" if action.resolution is None else decided(action.resolution)
        table.add_row("", "?", Text(subject(action)), Text(f"{action.action_id}: {how}"), "")


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
            Text(visible(_name(step))),
            step.status + copied,
            str(step.attempt),
            f"{step.usage.total_tokens:,}" if step.usage else "",
            _took(step),
            Text(visible(_said(run, step))),
        )
    return table


def _name(step: Step) -> str:
    """Return the tool, or the model: what was asked for, and what answered."""
    return f"{step.alias} ({step.name})" if step.alias else step.name


def _took(step: Step) -> str:
    if step.started_at is None or step.completed_at is None:
        return ""
    return f"{(step.completed_at - step.started_at).total_seconds():.2f} s"


def _said(run: Run, step: Step) -> str:
    if step.error is not None:
        kept = f" after “{short(step.text)}”" if step.text else ""
        return f"{step.error.code}: {step.error.message}{kept}"
    if step.kind == "check":
        return short(step.text or "")
    if step.kind == "model":
        asked = [call for call in run.tool_calls if call.model_step == step.number]
        calls = ", ".join(f"{call.name}({escaped(call.arguments)})" for call in asked)
        return short(" ".join(part for part in (step.text, calls and f"→ {calls}") if part))
    call = next((c for c in reversed(run.tool_calls) if c.step == step.number), None)
    return short(call.result or call.arguments) if call else ""


def runs_table(found: RunList) -> Table:
    """Return a page of Runs, one a row."""
    table = Table(box=None, pad_edge=False)
    titles = ["RUN", "STATUS", "AGENT", "SESSION", "CREATED", "TOKENS"]
    if any(each.parent_run_id for each in found.runs):
        titles.append("CALLED BY")
    for title in titles:
        table.add_column(title, justify="right" if title == "TOKENS" else "left", no_wrap=True)
    for each in found.runs:
        created = each.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        status = Text(each.status, style=STYLES[each.status])
        if each.waiting_on is not None:
            status.append(f" ({each.waiting_on})")
        if each.queue_position is not None:
            status.append(f" (place {each.queue_position})")
        used = f"{each.total_tokens:,}" if each.status.is_terminal else ""
        row = each.run_id, status, each.agent, each.session_id or "", created, used
        table.add_row(*row, *([each.parent_run_id or ""] if "CALLED BY" in titles else []))
    return table
