"""What people are to decide, for their eyes: whole, and with nothing in it that deceives them.

Arguments, reasons and questions come from models, and so from whatever these have read. They are
never read as markup, what can't be seen is spelled out, and no line of theirs begins where a line
of ours would.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.client.cli.words import beginning, escaped
from perdure.client.deciding import OpenAction
from perdure.runs.actions import Action, Resolution

ARGUMENTS_CHARS = 80
"""Of the arguments, in a table."""
LIVE_CHARS = 400
"""Of each thing, in a live view, which has to fit a terminal."""
NAME_COLUMNS = 24
"""For the names of arguments."""


def card(asked: OpenAction, *, chars: int | None = None) -> Group:
    """Return something to decide, in full, and the commands that do it.

    Args:
        asked: What is asked.
        chars: Cut every value of the arguments, and the reason, to so many, visibly.
    """
    ways = [Text(f"  → {each}", style="dim", overflow="fold") for each in commands(asked)]
    return Group(title(asked), content(asked.action, chars), *ways)


def title(asked: OpenAction) -> Text:
    """Return one line: which action, what it is about, whose, until when."""
    action = asked.action
    line = Text(action.action_id, style="bold yellow")
    line.append(f"  {subject(action)}", style="bold")
    line.append(f"  Run {asked.run_id}, agent {asked.agent}{_expiry(action)}", style="dim")
    return line


def subject(action: Action) -> str:
    """Return what an action is about, in a few words."""
    if action.about == "outcome":
        return f"what became of the call of {escaped(action.name)}"
    if action.about == "call":
        return escaped(action.name)
    return f"the {action.about} of {escaped(action.name)}"


def content(action: Action, chars: int | None = None) -> Padding:
    """Return why a person is asked, what is to be decided, and the choices.

    What is long goes on below itself, so that no part of it can be taken for another line.
    """
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(max_width=NAME_COLUMNS, overflow="fold")
    lines.add_column(overflow="fold")
    if action.reason:
        label = "Question" if action.kind == "input" else "Why"
        lines.add_row(Text(label, style="dim"), Text(_said(action.reason, chars)))
    for number, choice in enumerate(action.choices, 1):
        mark = f"{number}." if by_number(action) else "-"
        lines.add_row(Text(mark, style="dim"), Text(_said(choice, chars)))
    if action.about in ("call", "outcome") and not _is_question(action):
        for name, value in arguments(action.arguments, chars):
            lines.add_row(Text(name, style="cyan"), Text(value))
    return Padding(lines, (0, 0, 0, 4))


def arguments(text: str, chars: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the arguments of a call, each with its name; texts of many lines as such.

    Where that would not tell exactly what the tool gets, the text is shown as the model wrote it.
    """
    values = _readable(text)
    if values is None:
        yield "as JSON", _said(text, chars)
    elif not values:
        yield "no arguments", ""
    else:
        for name, value in values.items():
            yield escaped(name), _value(value, chars)


def _value(value: Any, chars: int | None) -> str:
    if isinstance(value, str) and "\n" in value and chars is None:
        return "\n".join(map(escaped, value.split("\n")))
    return _said(json.dumps(value, ensure_ascii=False), chars)


def actions_table(found: tuple[OpenAction, ...]) -> Table:
    """Return what waits, one a row; long arguments are cut, visibly."""
    table = Table(box=None, pad_edge=False)
    for name in ("RUN", "ACTION", "CALL", "WHAT", "REASON", "AGE", "EXPIRES"):
        table.add_column(name, no_wrap=name not in ("WHAT", "REASON"), overflow="fold")
    for each in found:
        action = each.action
        table.add_row(
            each.run_id,
            action.action_id,
            Text(beginning(action.call_id or "", ARGUMENTS_CHARS)),
            Text(_in_short(action)),
            Text(beginning(action.reason)),
            span(datetime.now(UTC) - action.asked_at),
            "" if action.expires_at is None else span(action.expires_at - datetime.now(UTC)),
        )
    return table


def span(length: Any) -> str:
    """Return a length of time in its largest unit; `now` when it is over."""
    seconds = int(length.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= 2 * size or (unit == "s" and seconds >= 1):
            return f"{(seconds + size // 2) // size} {unit}"
    return "now"


def commands(asked: OpenAction) -> list[str]:
    """Return the commands that decide an action."""
    what = f"{asked.run_id} {asked.action.action_id}"
    if asked.action.kind == "approval":
        return [f"perdure approve {what}", f'perdure reject {what} --note "…"']
    return [f'perdure answer {what} "…"']


def decided(resolution: Resolution) -> str:
    """Return how an action was decided, in one line."""
    line: str = resolution.verdict
    if resolution.by:
        line += f" by {escaped(resolution.by)}"
    if resolution.answer is not None:
        line += f": {beginning(resolution.answer)}"
    if resolution.note:
        line += f", “{beginning(resolution.note)}”"
    if resolution.arguments is not None:
        line += f", with {beginning(resolution.arguments)}"
    return line


def by_number(action: Action) -> bool:
    """Tell whether a number can stand for a choice: not where it may be a choice itself."""
    return not any(choice.strip().isdecimal() for choice in action.choices)


def _in_short(action: Action) -> str:
    what = subject(action)
    if action.kind == "approval" and action.about == "call":
        return f"{what}({beginning(action.arguments, ARGUMENTS_CHARS)})"
    if action.choices:
        what += f": {beginning(' | '.join(action.choices), ARGUMENTS_CHARS)}"
    return what


def _said(text: str, chars: int | None) -> str:
    return escaped(text) if chars is None else beginning(text, chars)


def _is_question(action: Action) -> bool:
    return action.kind == "input" and action.about == "call"


def _expiry(action: Action) -> str:
    if action.expires_at is None:
        return ""
    left = span(action.expires_at - datetime.now(UTC))
    return f", expires in {left}" if left != "now" else ", has expired"


class _Inexact(ValueError):
    """The values do not say all that the text does."""


def _readable(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, object_pairs_hook=_named_once, parse_float=_exact)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Inexact
    return found


def _exact(number: str) -> float:
    if repr(float(number)) != number:
        raise _Inexact
    return float(number)
