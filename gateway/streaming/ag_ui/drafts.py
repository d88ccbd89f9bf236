"""What was passed on of a model Step that has not ended: a draft.

The Event that ends the Step is the truth: the rest of it is sent, unless what was passed on was
something else.
"""

from collections.abc import Sequence

from perdure.gateway.streaming.ag_ui.messages import (
    call_id,
    calls_of,
    reasoning_id,
    reasoning_of,
)
from perdure.gateway.streaming.ag_ui.wire import Json, event
from perdure.gateway.streaming.heard import Heard
from perdure.runs.deltas import ArgumentsDelta, OutputTextDelta, ReasoningDelta
from perdure.runs.run import Run
from perdure.runs.steps import ToolCall

Spoken = OutputTextDelta | ReasoningDelta | ArgumentsDelta


class Draft:
    """One attempt of a model Step.

    Args:
        message_id: Of what it says.
        step: Its number.
        attempt: From 1.
    """

    def __init__(self, message_id: str, step: int, attempt: int) -> None:
        self.message_id = message_id
        self.step = step
        self.attempt = attempt
        self._log = 0
        self._text: Heard | None = None
        self._calls: dict[int, tuple[str, Heard]] = {}
        self._thoughts = 0
        self._is_thinking = False

    @property
    def reasoning(self) -> list[str]:
        """Ids of the reasoning that was passed on."""
        return [reasoning_id(self.message_id, n) for n in range(1, self._thoughts + 1)]

    @property
    def is_empty(self) -> bool:
        """True while nothing was passed on."""
        return self._text is None and not self._calls and not self._thoughts

    def take(self, delta: Spoken) -> list[Json]:
        """Return a piece of the log as events: none for what is known, or stands behind a gap."""
        if delta.offset > self._log:
            return []
        piece = delta.delta[self._log - delta.offset :]
        if not piece:
            return []
        self._log += len(piece)
        match delta:
            case OutputTextDelta():
                return [*self._thought(), *self._write(piece)]
            case ReasoningDelta():
                return self._think(piece)
            case ArgumentsDelta():
                return [*self._thought(), *self._ask(delta.call, delta.name, piece)]

    def end(self, run: Run) -> list[Json] | None:
        """Return what is missing of the Step, which has ended.

        Returns:
            None when something else was passed on than the Run keeps.
        """
        step, calls = run.steps[self.step - 1], calls_of(run, self.step)
        text = step.text or ""
        if not self._is_beginning_of(step.attempt, text, calls):
            return None
        out = [] if self._thoughts else self._think(reasoning_of(step))
        out += self._thought()
        rest = text if self._text is None else self._text.rest_of(text)
        out += self._write(rest or "")
        for number, call in enumerate(calls):
            heard = self._calls.get(number)
            more = call.arguments if heard is None else heard[1].rest_of(call.arguments)
            out += self._ask(number, call.name, more or "")
        return out + self.close()

    def close(self) -> list[Json]:
        """Return the events that close what is open."""
        out = self._thought()
        if self._text is not None:
            out.append(event("TEXT_MESSAGE_END", messageId=self.message_id))
        for number in self._calls:
            out.append(event("TOOL_CALL_END", toolCallId=call_id(self.message_id, number)))
        return out

    def _is_beginning_of(self, attempt: int, text: str, calls: Sequence[ToolCall]) -> bool:
        if self.is_empty:
            return True
        if attempt != self.attempt or (self._text is not None and self._text.rest_of(text) is None):
            return False
        return all(
            number < len(calls)
            and calls[number].name == name
            and heard.rest_of(calls[number].arguments) is not None
            for number, (name, heard) in self._calls.items()
        )

    def _write(self, piece: str) -> list[Json]:
        if not piece:
            return []
        out: list[Json] = []
        if self._text is None:
            self._text = Heard()
            out.append(event("TEXT_MESSAGE_START", messageId=self.message_id, role="assistant"))
        self._text.add(piece)
        out.append(event("TEXT_MESSAGE_CONTENT", messageId=self.message_id, delta=piece))
        return out

    def _ask(self, number: int, name: str, piece: str) -> list[Json]:
        id = call_id(self.message_id, number)
        out: list[Json] = []
        if number not in self._calls:
            self._calls[number] = (name, Heard())
            out.append(
                event(
                    "TOOL_CALL_START",
                    toolCallId=id,
                    toolCallName=name,
                    parentMessageId=self.message_id,
                )
            )
        if piece:
            self._calls[number][1].add(piece)
            out.append(event("TOOL_CALL_ARGS", toolCallId=id, delta=piece))
        return out

    def _think(self, piece: str) -> list[Json]:
        if not piece:
            return []
        out: list[Json] = []
        if not self._is_thinking:
            self._is_thinking = True
            self._thoughts += 1
            id = reasoning_id(self.message_id, self._thoughts)
            out.append(event("REASONING_START", messageId=id))
            out.append(event("REASONING_MESSAGE_START", messageId=id, role="reasoning"))
        id = reasoning_id(self.message_id, self._thoughts)
        out.append(event("REASONING_MESSAGE_CONTENT", messageId=id, delta=piece))
        return out

    def _thought(self) -> list[Json]:
        """Return the events that close reasoning, where some is open."""
        if not self._is_thinking:
            return []
        self._is_thinking = False
        id = reasoning_id(self.message_id, self._thoughts)
        return [event("REASONING_MESSAGE_END", messageId=id), event("REASONING_END", messageId=id)]
