"""Text of models and tools, made fit for one line, or for a terminal."""

import re

SHOWN_CHARS = 160
"""Of a result or a text, in one line."""

_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)])
_REORDERING = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_HARMLESS = {
    code: kept for code, kept in (_CONTROLS | _REORDERING).items() if chr(code) not in "\n\t"
}

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Printable, as Unicode has it, and yet there is nothing to see."""
_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def short(text: str) -> str:
    """Return the beginning of a text, in one line that does nothing to a terminal."""
    line = " ".join(visible(text).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def ending(text: str, chars: int = SHOWN_CHARS) -> str:
    """Return the end of a text, as `short` returns its beginning."""
    line = " ".join(visible(text[-2 * chars :]).split())
    is_whole = len(line) <= chars and len(text) <= 2 * chars
    return line if is_whole else "…" + line[1 - chars :]


def visible(text: str) -> str:
    """Return a text without what would move a terminal's cursor, colour or reorder its lines."""
    return text.translate(_HARMLESS)


def escaped(text: str) -> str:
    r"""Return a text, whole, in one line in which nothing is hidden and nothing has an effect.

    What can't be seen is spelled as JSON spells it, such as `\u202e`: in a JSON text, that is the
    same text. Only the space stays.
    """
    return "".join(map(_spelled, text))


def _spelled(char: str) -> str:
    if char.isprintable() and not _UNSEEN.match(char):
        return char
    if char in _SPELLED:
        return _SPELLED[char]
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def beginning(text: str, chars: int = SHOWN_CHARS) -> str:
    """Return the beginning of a text, escaped; where it is cut it says how much is left out."""
    line = escaped(text)
    if len(line) <= chars:
        return line
    return f"{line[:chars]} […{len(line) - chars:,} more characters]"
