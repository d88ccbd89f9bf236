"""Real processes of ours, started and killed by tests."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

Process = asyncio.subprocess.Process
START_TIMEOUT_S = 60.0


@asynccontextmanager
async def perdure(
    *arguments: str, env: Mapping[str, str] | None = None, stdin: int | None = None
) -> AsyncIterator[Process]:
    """Run `perdure …` for the length of the block; what is left of it then is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "perdure",
        *arguments,
        env=os.environ | dict(env or {}),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        await kill(process)


async def output(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run `perdure …` to its end; return exit code, standard output and standard error."""
    async with perdure(*arguments, env=env) as process:
        async with asyncio.timeout(START_TIMEOUT_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


async def said(process: Process, words: str) -> str:
    """Wait until the process has said `words` on its standard error; return all before it.

    Raises:
        AssertionError: When it ended without.
    """
    assert process.stderr is not None
    heard = ""
    async with asyncio.timeout(START_TIMEOUT_S):
        while words not in heard:
            line = await process.stderr.readline()
            assert line, f"it ended without saying {words!r}, but: {heard}"
            heard += line.decode()
    return heard


async def kill(process: Process) -> None:
    """Kill a process as `kill -9` does."""
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    # Also reads what is left in the pipes, so that they are closed.
    await process.communicate()


async def ended(process: Process, timeout_s: float = START_TIMEOUT_S) -> int:
    """Wait for a process to end by itself; return its exit code.

    Raises:
        TimeoutError: When it does not within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode
