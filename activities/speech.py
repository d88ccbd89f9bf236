"""What a model says while it says it: the log of one attempt, from the answer that arrives."""

from typing import Literal

from perdure.activities.openai_chat import Answer
from perdure.runs.deltas import MAX_DRAFT_CHARS, Draft, Segment
from perdure.runs.messages import without_lone_surrogates

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields in which providers show what a model thinks: DeepSeek and vLLM; OpenRouter; Ollama. Some
send two of them with the same words: the first that comes is listened to."""

Kind = Literal["text", "reasoning", "arguments"]


class Speech:
    """Listens to an answer.

    Args:
        answer: It only grows.
        output_tool: The tool whose arguments are the output, where an output is given that way.
    """

    def __init__(self, answer: Answer, output_tool: str | None = None) -> None:
        self._answer = answer
        self._output_tool = output_tool
        self._reasoning: str | None = None
        self._heard: dict[tuple[Kind, int], int] = {}
        """Characters of each part that were listened to."""
        self.draft = Draft()

    def listen(self) -> None:
        """Append to the log what has come since the last time."""
        answer = self._answer
        if self._reasoning is None:
            self._reasoning = next((name for name in answer.extra if name in REASONING), None)
        if self._reasoning is not None:
            self._part("reasoning", 0, answer.extra[self._reasoning])
        self._part("text", 0, answer.text)
        for number, call in enumerate(answer.calls):
            if call.name and call.name == self._output_tool:
                self._part("text", number + 1, call.arguments)
            elif call.name:
                self._part("arguments", number, call.arguments, call.name, call.id)

    def _part(self, kind: Kind, number: int, whole: str, name: str = "", call_id: str = "") -> None:
        heard = self._heard.get((kind, number), 0)
        fresh = whole[heard:]
        if fresh and "\ud800" <= fresh[-1] <= "\udbff":
            fresh = fresh[:-1]  # the other half of the character is on its way
        if not fresh:
            return
        self._heard[kind, number] = heard + len(fresh)
        room = MAX_DRAFT_CHARS - self.draft.length
        segment = Segment(
            kind=kind,
            text=without_lone_surrogates(fresh)[:room],
            call=number if kind == "arguments" else 0,
            name=without_lone_surrogates(name),
            call_id=without_lone_surrogates(call_id),
        )
        self.draft.extend(self.draft.length, [segment])
