"""Sessions for people: a list of them, one of them, what was said in one."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from perdure.client.cli.words import short, visible
from perdure.client.sessions import SessionList, SessionSummary
from perdure.runs.messages import AssistantMessage, Message, ToolMessage, UserMessage
from perdure.runs.usage import Usage
from perdure.sessions.contract import SessionReport
from perdure.sessions.parts import DEFAULT_MAX_QUEUED, SessionSettings


def sessions_table(found: SessionList) -> Table:
    """Return a page of Sessions, one a row."""
    table = Table(box=None, pad_edge=False)
    for title in ("SESSION", "STATE", "LAST ACTIVE", "RUNS", "TOKENS", "COST"):
        right = title in ("RUNS", "TOKENS", "COST")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for each in found.sessions:
        table.add_row(
            each.session_id,
            _state(each),
            _local(each.last_active_at),
            str(each.runs),
            f"{each.total_tokens:,}",
            f"${each.total_cost:.4f}",
        )
    return table


def _state(session: SessionSummary) -> Text:
    if not session.is_open:
        return Text("ended", style="dim")
    if session.active_run_id is None and not session.queued:
        return Text("idle", style="green")
    waiting = f", {session.queued} waiting" if session.queued else ""
    return Text(f"busy{waiting}", style="cyan")


def session_view(report: SessionReport, variables: dict[str, Any] | None = None) -> Text:
    """Return a Session: what goes on in it, what it used and may use, how long it lives.

    Args:
        report: What to show.
        variables: Its variables, where a worker was asked for them.
    """
    lines = list(_lines(report))
    if variables is not None:
        lines.append(("Variables", visible(json.dumps(variables, ensure_ascii=False))))
    shown = [Text.assemble((f"{name:13}", "dim"), value) for name, value in lines]
    return Text("\n").join(shown)


def _lines(report: SessionReport) -> Iterator[tuple[str, str]]:
    settings = report.settings
    yield "Session", report.session_id
    if report.forked_from is not None:
        yield "Forked from", report.forked_from
    if report.ended_at is not None:
        yield "Ended", _local(report.ended_at)
    else:
        yield "Active Run", report.active_run_id or "none"
        for place, run_id in enumerate(report.queue, 1):
            yield f"Place {place}", run_id
    yield "Runs", str(report.runs)
    yield "Messages", str(report.messages)
    yield "Tokens", _tokens(report.usage, settings)
    yield "Cost", _cost(report.usage, settings)
    allowed = DEFAULT_MAX_QUEUED if settings.max_queued is None else settings.max_queued
    yield "Queue", f"{len(report.queue)} of {allowed}"
    yield "Created", _local(report.created_at)
    yield "Last active", _local(report.last_active_at)
    if report.ended_at is None:
        yield "Expires", f"{_local(report.expires_at)}, if no Run is started"


def _tokens(usage: Usage, settings: SessionSettings) -> str:
    used = f"{usage.total_tokens:,}{'' if usage.complete else '+'}"
    return used + ("" if settings.max_tokens is None else f" of {settings.max_tokens:,}")


def _cost(usage: Usage, settings: SessionSettings) -> str:
    used = f"${usage.cost:.4f}{'+' if usage.unpriced_calls else ''}"
    if usage.model_calls and usage.model_calls == usage.unpriced_calls:
        used = "no price known"
    return used + ("" if settings.max_cost is None else f" of ${settings.max_cost:g}")


def _local(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def conversation(messages: Iterable[Message]) -> Iterator[Text]:
    """Yield what was said, one thing a line: calls and results of tools are shortened."""
    for message in messages:
        match message:
            case UserMessage():
                yield said_by_user(message.content)
                for file in message.files:
                    yield Text(f"  + {short(file.described)}", style="dim")
            case AssistantMessage():
                if message.content:
                    yield Text(visible(message.content))
                for call in message.tool_calls:
                    yield Text(f"  → {call.name}({short(call.arguments)})", style="dim")
            case ToolMessage():
                yield Text(f"  ← {short(message.content)}", style="dim")


def said_by_user(text: str) -> Text:
    """Return what a person said, as it looks behind a prompt."""
    return Text("> " + visible(text).replace("\n", "\n  "), style="bold")
