"""What every command shares: the connection, the two outputs, errors and exit codes."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError, ErrorCode, PerdureError
from perdure.runs.run import Run
from perdure.runs.status import RunStatus

PIPE_WIDTH = 200
"""Columns of what goes into a pipe or a file: nothing is to be cut for a screen there."""


def _console(*, stderr: bool) -> Console:
    found = Console(stderr=stderr, highlight=False)
    if not found.is_terminal:
        found.width = PIPE_WIDTH
    return found


out = _console(stderr=False)
"""Results: what a pipe is to get."""
err = _console(stderr=True)
"""Progress and errors: for people."""

USAGE, NOT_FOUND, UNAVAILABLE, NOT_NOW, INTERRUPTED = 2, 5, 6, 7, 130
EXIT_OF_STATUS = {
    RunStatus.COMPLETED: 0,
    RunStatus.FAILED: 1,
    RunStatus.CANCELLED: 3,
    RunStatus.TIMEOUT: 4,
}
EXIT_OF_CODE = {
    ErrorCode.RUN_NOT_FOUND: NOT_FOUND,
    ErrorCode.CALL_NOT_FOUND: NOT_FOUND,
    ErrorCode.SESSION_NOT_FOUND: NOT_FOUND,
    ErrorCode.ACTION_NOT_FOUND: NOT_FOUND,
    ErrorCode.ENGINE_UNAVAILABLE: UNAVAILABLE,
    ErrorCode.STORAGE_UNAVAILABLE: UNAVAILABLE,
    ErrorCode.NO_WORKER: UNAVAILABLE,
    ErrorCode.CONFIGURATION: UNAVAILABLE,
    ErrorCode.SESSION_BUSY: NOT_NOW,
    ErrorCode.SESSION_WAITING_FOR_ACTION: NOT_NOW,
    ErrorCode.QUEUE_FULL: NOT_NOW,
    ErrorCode.SESSION_LIMIT: NOT_NOW,
}
"""Exit codes of errors; all others are 2, bad input. docs/cli.md has the table for people."""


def settings() -> Settings:
    """Return the settings of the environment.

    Raises:
        typer.Exit: When one is unusable; says which.
    """
    try:
        return Settings.configured()
    except ConfigurationError as exc:
        report(exc, as_json=False)
        raise typer.Exit(UNAVAILABLE) from None


def execute(command: Coroutine[Any, Any, int], *, as_json: bool = False) -> None:
    """Run a command to its end, and leave with its exit code.

    Raises:
        typer.Exit: Always.
    """
    leave_with(lambda: asyncio.run(command), as_json=as_json)


def leave_with(command: Callable[[], int], *, as_json: bool) -> None:
    """Do something, and leave with its exit code.

    Raises:
        typer.Exit: Always.
    """
    try:
        code = command()
    except PerdureError as exc:
        report(exc, as_json=as_json)
        code = EXIT_OF_CODE.get(exc.code, USAGE)
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


def report(exc: PerdureError, *, as_json: bool) -> None:
    """Say what went wrong, in one sentence with the way out."""
    if as_json:
        told = {"code": exc.code, "message": exc.message, "hint": exc.hint}
        sys.stderr.write(json.dumps({"error": told}) + "\n")
    else:
        err.print(Text(f"Error ({exc.code}): {exc}", style="red"))


def print_json(value: Any) -> None:
    """Write one line of JSON to the standard output."""
    sys.stdout.write(value.model_dump_json() + "\n")
    sys.stdout.flush()


def exit_of(run: Run) -> int:
    """Return the exit code that says how a Run ended."""
    return EXIT_OF_STATUS.get(run.status, 0)
