"""What a person types: line editing, earlier messages, pasted text of many lines.

While the prompt waits, nothing else goes on in this process: the event loop stands still. So
Ctrl-C and Ctrl-D do here what they do in any program that asks for a line.
"""

import contextlib
import sys
import termios
from collections.abc import Iterator
from types import ModuleType

PROMPT, MORE = "> ", "… "


def _line_editor() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline if sys.stdout.isatty() else None


class Prompt:
    """Reads messages from the terminal."""

    def __init__(self) -> None:
        self._editor = _line_editor()
        if self._editor is not None:
            # Off in Python by default: without it, every line of what is pasted is one message.
            self._editor.parse_and_bind("set enable-bracketed-paste on")
            self._editor.set_auto_history(False)

    def read(self, prefill: str = "", *, prompt: str = PROMPT, fresh: bool = False) -> str:
        r"""Return what is typed next; a `\` at the end of a line goes on in the next one.

        Args:
            prefill: Stands there already, to be changed or sent.
            prompt: Stands before it.
            fresh: Drop what was typed before.

        Raises:
            EOFError: For Ctrl-D in an empty line.
            KeyboardInterrupt: For Ctrl-C; `was_empty` tells whether anything was typed by then.
        """
        if fresh:
            with contextlib.suppress(OSError, ValueError, termios.error):
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        lines = [self._line(prompt, prefill)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._line(MORE, ""))
        return "\n".join(lines)

    def _line(self, prompt: str, prefill: str) -> str:
        editor = self._editor
        if editor is None:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise EOFError
            return line.removesuffix("\n")
        editor.set_startup_hook((lambda: editor.insert_text(prefill)) if prefill else None)
        return input(prompt)

    @property
    def was_empty(self) -> bool:
        """Whether nothing stood in the line when Ctrl-C was pressed."""
        return self._editor is None or not self._editor.get_line_buffer()

    def remember(self, text: str) -> None:
        """Have the arrow keys bring back a message."""
        if self._editor is not None:
            self._editor.add_history(text)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Do not show what is typed while the block runs; it is there when the prompt is back."""
    try:
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield
        return
    changed = list(before)
    # Key by key, not in lines: else Ctrl-D and corrections would not be what they are at a prompt.
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
