"""Talking with a person: the prompt and one Run alternate, and never overlap.

During the prompt the event loop stands still; during a Run nobody is asked anything.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from perdure.client.cli.chat.conversation import Conversation
from perdure.client.cli.chat.deciding import Asking
from perdure.client.cli.chat.prompt import Prompt, unseen
from perdure.client.cli.chat.slash import Leave, obey
from perdure.client.cli.session import INTERRUPTED, report
from perdure.runs.errors import PerdureError

T = TypeVar("T")


class Loop:
    """Asks, says, shows, until the person leaves.

    Args:
        runner: Executes everything that takes time.
        conversation: What is talked about.
    """

    def __init__(self, runner: asyncio.Runner, conversation: Conversation) -> None:
        self._runner = runner
        self._conversation = conversation
        self._prompt = Prompt()
        self._asking = Asking(self._prompt, conversation.screen)

    def run(self) -> int:
        """Talk until the person leaves; return the exit code.

        Raises:
            PerdureError: When the conversation can't begin.
        """
        try:
            for text in self._do(self._conversation.open()):
                self._prompt.remember(text)
            self._decide()
            while True:
                self._answer(self._asked())
        except (Leave, EOFError):
            code = 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        self._conversation.screen.end_line()
        if self._conversation.has_begun:
            self._conversation.screen.note(self._conversation.way_back)
        return code

    def _asked(self) -> str:
        """Return what the person says; what could not be sent stands there already."""
        unsent = self._conversation.unsent
        try:
            return self._prompt.read(unsent.text if unsent is not None else "")
        except KeyboardInterrupt:
            self._conversation.screen.note("")
            if self._prompt.was_empty:
                raise EOFError from None
            self._conversation.unsent = None
            return ""
        except EOFError:
            self._conversation.screen.note("")
            raise

    def _answer(self, text: str) -> None:
        try:
            if text.startswith("/"):
                self._do(obey(self._conversation, text))
            elif text.strip():
                self._prompt.remember(text.strip())
                self._do(self._conversation.say(text.strip()))
        except PerdureError as exc:
            self._tell(exc)
        self._decide()

    def _decide(self) -> None:
        """Let the person decide whatever the Run asks, until it has ended."""
        while (asked := self._conversation.asking) is not None:
            cancel = False
            try:
                decision = self._asking.decision(asked)
                self._do(self._conversation.decide(asked, decision))
            except PerdureError as exc:
                self._tell(exc)
                continue
            except KeyboardInterrupt:
                cancel = True
            try:
                self._do(self._conversation.go_on(cancel=cancel))
            except PerdureError as exc:
                self._tell(exc)

    def _tell(self, exc: PerdureError) -> None:
        self._conversation.screen.end_line()
        self._conversation.screen.passing("")
        report(exc, as_json=False)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with unseen():
                return self._runner.run(work)
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
