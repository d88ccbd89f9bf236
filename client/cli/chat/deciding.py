"""A person decides, in the chat, what a Run asks; nothing else is typed or done meanwhile."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from perdure.client.cli.actions.deciding import chosen, read_arguments
from perdure.client.cli.actions.views import by_number, card
from perdure.client.cli.chat.prompt import Prompt
from perdure.client.cli.chat.screen import Screen
from perdure.client.cli.session import report
from perdure.client.cli.words import escaped
from perdure.client.deciding import OpenAction
from perdure.runs.actions import Action
from perdure.runs.errors import InvalidRequest

YES, NO, EDIT, DECLINE = ("y", "yes"), ("n", "no"), ("e", "edit"), "/reject"


@dataclass(frozen=True)
class Decision:
    """What a person decided."""

    verdict: Literal["approved", "rejected", "answered"]
    note: str = ""
    answer: str = ""
    arguments: dict[str, Any] | None = None


class Asking:
    """Shows what is asked and reads what the person decides.

    Args:
        prompt: Where it is typed.
        screen: Where it is shown.
    """

    def __init__(self, prompt: Prompt, screen: Screen) -> None:
        self._prompt = prompt
        self._screen = screen

    def decision(self, asked: OpenAction) -> Decision:
        """Return what the person decides; ask until that is clear.

        What was typed before all this was shown does not count: it can't have been meant.

        Raises:
            EOFError: For Ctrl-D: the person leaves, and the Run waits on.
            KeyboardInterrupt: For Ctrl-C in an empty line.
        """
        action = asked.action
        self._screen.note(card(asked))
        self._screen.note(_ways(action))
        while True:
            try:
                line = self._prompt.read(prompt=_question(action), fresh=True)
                if action.kind == "approval" and line.strip().lower() in EDIT:
                    return Decision("approved", arguments=self._edited(action))
                understood = _understood(action, line)
            except InvalidRequest as exc:
                report(exc, as_json=False)
                continue
            except KeyboardInterrupt:
                self._screen.note("")
                if self._prompt.was_empty:
                    raise
                continue
            if understood is not None:
                return understood
            self._screen.note(_ways(action), style="yellow")

    def _edited(self, action: Action) -> dict[str, Any]:
        if action.about != "call":
            raise InvalidRequest("There are no arguments to edit.", hint="Say y or n.")
        # Spelled out, what can't be seen stands in texts only: it stays the same JSON.
        now = escaped(json.dumps(json.loads(action.arguments), ensure_ascii=False))
        return read_arguments(self._prompt.read(now, prompt="arguments> "))


def _question(action: Action) -> str:
    if action.kind == "approval":
        return f"{action.action_id}: approve? "
    return f"{action.action_id}: answer> "


def _ways(action: Action) -> str:
    if action.kind == "approval":
        edit = ", e edits the arguments" if action.about == "call" else ""
        way = f"y approves, n or n NOTE rejects{edit}"
    elif action.choices:
        number = ", or its number" if by_number(action) else ""
        way = f"One of the choices{number}; {DECLINE} NOTE declines"
    else:
        way = f"Your answer; {DECLINE} NOTE declines"
    return f"  {way}. Ctrl-C cancels the Run; Ctrl-D leaves, and it waits."


def _understood(action: Action, line: str) -> Decision | None:
    word, _, rest = line.strip().partition(" ")
    if action.kind == "approval":
        if word.lower() in YES and not rest:
            return Decision("approved")
        # A yes with conditions is none.
        return Decision("rejected", note=rest.strip()) if word.lower() in NO else None
    if word == DECLINE:
        return Decision("rejected", note=rest.strip())
    answer = chosen(action, line.strip())
    if not answer or (action.choices and answer not in action.choices):
        return None
    return Decision("answered", answer=answer)
