"""Text of models and tools, made fit for one line, or for a terminal."""

SHOWN_CHARS = 160
"""Of a result or a text, in one line."""

_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)])
_HARMLESS = {code: kept for code, kept in _CONTROLS.items() if chr(code) not in "\n\t"}


def short(text: str) -> str:
    """Return the beginning of a text, in one line that does nothing to a terminal."""
    line = " ".join(visible(text).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def visible(text: str) -> str:
    """Return a text without what would move the cursor or change the colours of a terminal."""
    return text.translate(_HARMLESS)
