"""A conversation through a pipe: each line is a message, and only answers come out."""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial

from rich.text import Text

from perdure.client.cli.chat.turn import Message, Turn
from perdure.client.cli.following import conclude, until_ended
from perdure.client.cli.session import INTERRUPTED, err, exit_of
from perdure.client.manager import RunManager
from perdure.client.sessions import SessionHandle
from perdure.runs.errors import InvalidRequest
from perdure.runs.limits import Limits


class Piped:
    """Says line after line, each when the one before was answered.

    Args:
        runner: Executes everything that takes time.
        manager: Connected.
        session: Where it is said.
        as_json: Print the Runs, not their answers.
    """

    def __init__(
        self, runner: asyncio.Runner, manager: RunManager, session: SessionHandle, *, as_json: bool
    ) -> None:
        self._runner = runner
        self._manager = manager
        self._session = session
        self._as_json = as_json

    def run(self, agent: str, model: str | None, limits: Limits) -> int:
        """Say every line; return how the last Run ended.

        Raises:
            PerdureError: When something can't be said; nothing after it is.
        """
        code = 0
        for line in _lines():
            if not line.strip():
                continue
            message = Message(line.strip(), agent, model, limits)
            turn = Turn(self._manager, partial(until_ended, self._manager), _tell)
            try:
                # It waits for its turn: nobody is there to decide otherwise.
                run = self._runner.run(turn.say(self._session, message, "enqueue"))
            except asyncio.CancelledError:
                return INTERRUPTED
            conclude(run, as_json=self._as_json)
            code = exit_of(run)
            if turn.was_interrupted:
                break
        return code


def _lines() -> Iterator[str]:
    try:
        yield from sys.stdin
    except UnicodeDecodeError as exc:
        raise InvalidRequest(f"The input is not {exc.encoding}: {exc.reason}.") from exc


def _tell(line: str) -> None:
    err.print(Text(line, style="yellow"), soft_wrap=True)
