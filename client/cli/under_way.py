"""What a Step that runs has brought so far, in one line of a terminal."""

from datetime import UTC, datetime

from rich.text import Text

from perdure.client.cli.words import SHOWN_CHARS, ending, escaped, short
from perdure.client.live.run import UnderWay


def doing(step: UnderWay, chars: int = SHOWN_CHARS) -> Text:
    """Return what a Step does at this moment; the words of an answer are shown elsewhere.

    Args:
        step: What it has brought.
        chars: Of a text, so many at its end.
    """
    told = _progress(step)
    if told:
        return Text(told)
    if not step.draft.segments:
        return Text(retrying(step))
    last = step.draft.segments[-1]
    if last.kind == "reasoning":
        return Text(f"thinking: {ending(last.text, chars)}", style="dim italic")
    if last.kind == "arguments":
        return Text(f"→ {short(last.name)}({escaped(ending(last.text, chars))}")
    return Text("")


def retrying(step: UnderWay) -> str:
    """Return which attempt of a Step comes, when, and why; nothing about the first."""
    if step.attempt == 1:
        return ""
    now = datetime.now(UTC)
    wait_s = (step.begins_at - now).total_seconds() if step.begins_at is not None else 0.0
    when = f" in {wait_s:.0f} s" if wait_s > 0 else ""
    why = f", after: {short(step.reason)}" if step.reason else ""
    return f"attempt {step.attempt}{when}{why}"


def _progress(step: UnderWay) -> str:
    part = "" if step.fraction is None else f"{step.fraction:.0%}"
    return " ".join(each for each in (part, short(step.message)) if each)
