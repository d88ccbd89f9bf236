"""Where a conversation is shown: the answer as it grows, lines about it, one that passes."""

import sys

from rich.console import Console, RenderableType
from rich.text import Text

from perdure.client.cli.words import visible


class Screen:
    """A terminal that is only ever written to at its end, so nothing flickers.

    Args:
        answers: Where the words of the agent go.
        notes: Where everything about them goes.
    """

    def __init__(self, answers: Console, notes: Console) -> None:
        self._answers = answers
        self._notes = notes
        self._in_line = False
        """Whether the answer stands in an unfinished line."""
        self._passing = ""

    def write(self, text: str) -> None:
        """Show more of the answer."""
        if not text:
            return
        self.passing("")
        if self._answers.is_terminal:
            text = visible(text)
        sys.stdout.write(text)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Finish the line of the answer, if it stands in one."""
        if self._in_line:
            self.write("\n")

    def note(self, line: RenderableType, style: str = "dim") -> None:
        """Show a line that stays, or more than one."""
        self.end_line()
        self.passing("")
        said = Text(visible(line), style=style) if isinstance(line, str) else line
        # Whatever has a shape of its own must not be wrapped by the terminal.
        self._notes.print(said, soft_wrap=isinstance(said, Text))

    def passing(self, line: str) -> None:
        """Show a line that goes away with whatever is shown next; not within an answer."""
        line = " ".join(visible(line).split())
        if line == self._passing or self._in_line:
            return
        if not self._notes.is_terminal or self._notes.is_dumb_terminal:
            return
        self._passing = line
        shown = line[: self._notes.width - 1]
        self._notes.file.write(f"\r\x1b[2K\x1b[2m{shown}\x1b[0m" if shown else "\r\x1b[2K")
        self._notes.file.flush()
