"""The conversation inside a Run: derived from it, never stored beside it.

A model activity is told only what is new since the last one, plus a `Mark` (count, digest) of
what came before. The digest chains SHA-256 over each message's wire form, so a cached
transcript that differs in one byte can't be mistaken for this Run's.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from perdure.runs.messages import AssistantMessage, Message, MessageCall, ToolMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.steps import Mark, RequestedCall, Step, ToolCall


def advance(mark: Mark, wired: bytes) -> Mark:
    """Return the mark after one more message, given in wire form."""
    digest = hashlib.sha256(mark.digest.encode() + wired).hexdigest()
    return Mark(count=mark.count + 1, digest=digest)


def opening(run: Run) -> tuple[Message, ...]:
    """Return the messages a Run starts with: its context, then its input."""
    return (*run.context.messages, UserMessage(content=run.input_message))


def assistant_message(
    text: str | None, calls: Iterable[RequestedCall | ToolCall]
) -> AssistantMessage:
    """Return what a model said as the message that later requests repeat."""
    return AssistantMessage(
        content=text,
        tool_calls=tuple(
            MessageCall(id=call.call_id, name=call.name, arguments=call.arguments) for call in calls
        ),
    )


def messages(run: Run, start: int = 0) -> Iterator[Message]:
    """Yield the messages of a Run, oldest first, from message number `start` on.

    A model Step that brought no usable answer adds none; results follow in the order of their
    calls, whatever the order in which they arrived.
    """
    return islice(_messages(run), start, None)


def since_last_answer(run: Run) -> tuple[Mark, tuple[Message, ...]]:
    """Return the mark of the model's last answer, and the messages that came after it."""
    answered = _last_answer(run)
    if answered is None or answered.mark is None:
        return Mark(), opening(run)
    results = [
        ToolMessage(tool_call_id=call.call_id, content=call.result or "")
        for call in _calls_of(run, answered.number)
    ]
    return answered.mark, tuple(results)


def _messages(run: Run) -> Iterator[Message]:
    yield from opening(run)
    calls = iter(run.tool_calls)
    call = next(calls, None)
    for step in run.steps:
        if step.kind != "model" or step.status != "completed":
            continue
        mine: list[ToolCall] = []
        while call is not None and call.model_step <= step.number:
            if call.model_step == step.number:
                mine.append(call)
            call = next(calls, None)
        yield assistant_message(step.text, mine)
        for settled in mine:
            if settled.is_settled:
                yield ToolMessage(tool_call_id=settled.call_id, content=settled.result or "")


def _last_answer(run: Run) -> Step | None:
    for step in reversed(run.steps):
        if step.kind == "model" and step.status == "completed":
            return step
    return None


def _calls_of(run: Run, model_step: int) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for call in reversed(run.tool_calls):
        if call.model_step < model_step:
            break
        calls.append(call)
    return calls[::-1]
