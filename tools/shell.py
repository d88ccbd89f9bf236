"""Run commands on the worker's machine. No agent has this unless it is given it by name.

This is no sandbox: a command may do whatever the worker's user may. What is kept from it is the
worker's environment, with its keys; what is kept in hand is its time, its output and its end.
"""

import asyncio
import os
import signal
from asyncio import ReadTransport
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.agents.tool import Tool, tool

MAX_OUTPUT_BYTES = 48 * 1024
"""Shown of a command's output, the beginning and the end: less than what a model sees uncut."""
_MARGIN_S = 10.0
"""Until the tool's own time is up, after the command's is."""
_REST_S = 1.0
"""For what is in the pipe when all are dead whom we know of."""
_CHUNK_BYTES = 64 * 1024


def shell_tool(
    folder: Path | str,
    *,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
    name: str = "run_command",
) -> Tool[[str | list[str]], Coroutine[Any, Any, str]]:
    """Return a tool that runs commands. They are as mighty as the worker's user is.

    Args:
        folder: Where commands start. They can leave it.
        timeout_s: Seconds that one may take; then it is killed, with all that it started and that
            did not leave its process group.
        environment: Variables for commands, besides PATH, HOME (the folder) and LANG. They see no
            others of the worker's, though its memory is only as safe from them as the system
            makes it: run the worker under a user, and in a container, of its own.
        name: The tool's name.

    Raises:
        NotADirectoryError: `folder` is not a folder.
    """
    place = Path(folder).resolve()
    if not place.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder; give one that exists.")
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place),
        "LANG": "C.UTF-8",
        **(environment or {}),
    }

    @tool(name=name, effect="unsafe", timeout_s=timeout_s + _MARGIN_S, approval=True)
    async def run_command(command: str | list[str]) -> str:
        """Run a command and return what it printed.

        Args:
            command: A line for the shell, such as "ls -l | wc -l"; or a list of a program and its
                arguments, which no shell reads. There is no standard input.

        Returns:
            How it ended, then its output, errors included.
        """
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        if not arguments:
            raise ValueError("The command is empty.")
        output = await _Output.opened()
        try:
            process = await _started(arguments, place, variables, output.write_end)
            output.written_by_others()
            how = await _ended(process, timeout_s)
            return f"({how})\n{await output.text()}"
        finally:
            output.close()

    return run_command


async def _started(
    arguments: list[str], place: Path, variables: Mapping[str, str], write_end: int
) -> Process:
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *arguments,
            stdin=DEVNULL,
            stdout=write_end,
            stderr=STDOUT,
            cwd=place,
            env=variables,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may be running already; asyncio itself would end only the first of its processes.
        with suppress(OSError, ValueError):
            process = await starting
            _kill(process)
            await process.wait()
        raise


async def _ended(process: Process, timeout_s: float) -> str:
    try:
        async with asyncio.timeout(timeout_s):
            return f"exit code {await process.wait()}"
    except TimeoutError:
        return f"killed: it took longer than {timeout_s:g} seconds"
    finally:
        # At every end, a cancel included: what a command left in the background ends with it.
        _kill(process)
        await process.wait()


def _kill(process: Process) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class _Output:
    """The beginning and the end of what a command prints into a pipe.

    The pipe is ours, not asyncio's: a process that left the group could hold it open for ever.
    """

    def __init__(self, write_end: int, reader: asyncio.StreamReader, pipe: ReadTransport) -> None:
        self.write_end = write_end
        self._is_open = True
        self._pipe = pipe
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def opened(cls) -> "_Output":
        """Make the pipe."""
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
        )
        return cls(write_end, reader, pipe)

    def written_by_others(self) -> None:
        """Close our copy of the end that is written to, so that the other sees when all are."""
        if self._is_open:
            os.close(self.write_end)
        self._is_open = False

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Read to the end, so that the command is never held up, and keep what may be shown."""
        half = MAX_OUTPUT_BYTES // 2
        while part := await reader.read(_CHUNK_BYTES):
            self._size += len(part)
            room = half - len(self._head)
            self._head += part[:room]
            self._tail += part[room:]
            del self._tail[:-half]

    async def text(self) -> str:
        """Return it, with a note of what is left out."""
        await asyncio.wait([self._reading], timeout=_REST_S)
        left_out = self._size - len(self._head) - len(self._tail)
        note = f"\n[… {left_out} bytes left out …]\n" if left_out else ""
        return note.join(bytes(part).decode(errors="replace") for part in (self._head, self._tail))

    def close(self) -> None:
        """Let go of both ends."""
        self.written_by_others()
        self._reading.cancel()
        self._pipe.close()
