"""A process of ours on a terminal of its own: a person types, and reads what is shown."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tests.harness.processes import START_TIMEOUT_S

CTRL_C, CTRL_D = "\x03", "\x04"
PASTES_ON, PASTES_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
PASTED = "\x1b[200~{}\x1b[201~"
"""What a terminal sends when a person pastes, where the program has asked to be told."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\x07]")
SHOWN_WITHIN_S = 16.0
PRESSES = 4
ROWS, COLUMNS = 50, 160


class Terminal:
    """One end of a pseudo-terminal; the process has the other.

    Args:
        process: Has the other end as its three streams.
        end: File descriptor of ours.
    """

    def __init__(self, process: asyncio.subprocess.Process, end: int) -> None:
        self.process = process
        self.shown = ""
        """Everything so far, without colours and movements of the cursor."""
        self._end = end
        self.raw = b""
        """The same with them."""
        self._read_up_to = 0
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(end, self._receive)

    def _receive(self) -> None:
        try:
            data = os.read(self._end, 65536)
        except OSError:  # the process has closed its end
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._end)
        self.raw += data
        self.shown = _CODES.sub("", self.raw.decode(errors="ignore"))
        self._news.set()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._end, text.encode())

    def paste(self, text: str) -> None:
        """Insert what was copied elsewhere."""
        told = self.raw.rfind(PASTES_ON) > self.raw.rfind(PASTES_OFF)
        self.type(PASTED.format(text) if told else text.replace("\n", "\r"))

    def say(self, line: str) -> None:
        """Type a line."""
        self.type(line + "\r")

    async def shows(self, words: str, timeout_s: float = SHOWN_WITHIN_S) -> str:
        """Wait until `words` are shown, after what was waited for before; return all up to them.

        Raises:
            AssertionError: When they are not, in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while (at := self.shown.find(words, self._read_up_to)) < 0:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            new = self.shown[self._read_up_to :]
            raise AssertionError(f"{words!r} was not shown, but: {new}") from None
        before, self._read_up_to = self._read_up_to, at + len(words)
        return self.shown[before : self._read_up_to]

    async def interrupt_prompt(self, words: str) -> None:
        """Press Ctrl-C at a prompt, until `words` are shown.

        Python's line editor looks for signals only while it waits for a key: one that comes while
        it still shows the key before is not noticed until the next Ctrl-C.
        """
        for _ in range(PRESSES):
            self.type(CTRL_C)
            with contextlib.suppress(AssertionError):
                await self.shows(words, timeout_s=SHOWN_WITHIN_S / PRESSES)
                return
        raise AssertionError(f"{words!r} was not shown")

    async def ended(self) -> int:
        """Wait for the end of the process; return its exit code."""
        async with asyncio.timeout(START_TIMEOUT_S):
            return await self.process.wait()

    def close(self) -> None:
        """Hang up."""
        asyncio.get_running_loop().remove_reader(self._end)
        os.close(self._end)


@asynccontextmanager
async def on_terminal(
    *arguments: str, env: Mapping[str, str] | None = None
) -> AsyncIterator[Terminal]:
    """Run `perdure …` on a terminal for the length of the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        # A terminal sends Ctrl-C only to the session whose controlling terminal it is.
        "import fcntl, runpy, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "runpy.run_module('perdure', run_name='__main__', alter_sys=True)",
        *arguments,
        env=os.environ | {"TERM": "xterm-256color"} | dict(env or {}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    terminal = Terminal(process, ours)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        terminal.close()
