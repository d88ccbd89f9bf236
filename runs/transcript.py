"""The conversation inside a Run: derived from it, never stored beside it.

A model activity is told only what is new since the last one, plus a `Mark` (count, digest) of
what came before. The digest chains SHA-256 over each message's wire form, so a cached
transcript that differs in one byte can't be mistaken for this Run's.

A transcript is made of blocks: the opening, then one for each answer of the model, with the
results of its calls and what a person said after it. A compaction replaces the oldest blocks by
one message; pairs of call and result are in one block, so they stay whole.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from perdure.runs.files import fitting, shown_of
from perdure.runs.limits import CHARS_PER_TOKEN, COMPACT_AT, KEEP_AT, SESSION_WINDOW
from perdure.runs.messages import AssistantMessage, Message, MessageCall, ToolMessage, UserMessage
from perdure.runs.steps import Mark, RequestedCall, Step, ToolCall

if TYPE_CHECKING:
    from perdure.runs.run import Run

SUMMARY = """\
The conversation so far was too long to be repeated. This is a summary of it:

{summary}

The task, in its original words:

{task}"""
"""What stands for the messages that were summed up."""
TASK_CHARS = 16_000
"""Of the input that is repeated beside the summary; of its files, as many tokens."""
TOOL_FILES = "Files that the tools returned, in the order of their calls; not from the user:"
"""What stands before them."""


def advance(mark: Mark, wired: bytes) -> Mark:
    """Return the mark after one more message, given in wire form."""
    digest = hashlib.sha256(mark.digest.encode() + wired).hexdigest()
    return Mark(count=mark.count + 1, digest=digest)


def opening(run: "Run") -> tuple[Message, ...]:
    """Return the messages a Run starts with: its context, then its input."""
    given = UserMessage(content=task(run), files=run.input_files)
    return (*run.context.messages, given)


def task(run: "Run") -> str:
    """Return the input as the model reads it."""
    return run.input_message if run.told_input is None else run.told_input


def assistant_message(
    text: str | None,
    calls: Iterable[RequestedCall | ToolCall],
    extra: Mapping[str, str] | None = None,
) -> AssistantMessage:
    """Return what a model said as the message that later requests repeat."""
    return AssistantMessage(
        content=text,
        tool_calls=tuple(
            MessageCall(id=call.call_id, name=call.name, arguments=call.arguments) for call in calls
        ),
        extra=dict(extra or {}),
    )


def messages(run: "Run", start: int = 0) -> Iterator[Message]:
    """Yield the messages of a Run, oldest first, from message number `start` on.

    A model Step that brought no usable answer adds none; results follow in the order of their
    calls, whatever the order in which they arrived.
    """
    every = (message for block in _blocks(run) for message in block.messages)
    return islice(every, start, None)


def since_last_answer(run: "Run") -> tuple[Mark, tuple[Message, ...]]:
    """Return the mark of the model's last answer, and the messages that came after it."""
    answered = last_answer(run)
    compacted = run.compaction.step if run.compaction else 0
    if answered is None or answered.mark is None or answered.number < compacted:
        return Mark(), tuple(messages(run))
    results = [*_brought(_calls_of(run, answered.number)), *_told_unfit(answered)]
    said = _said_between(run, answered.number, _end(run))
    return answered.mark, (*results, *said)


def last_answer(run: "Run") -> Step | None:
    """Return the latest model Step that answered, compactions apart."""
    for step in reversed(run.steps):
        if _is_answer(step):
            return step
    return None


def last_executed(run: "Run") -> Step | None:
    """Return the latest Step that had an activity of its own."""
    return next((step for step in reversed(run.steps) if step.kind != "check"), None)


def has_followed_up(run: "Run", answer: Step) -> bool:
    """Tell whether a person said something after this answer."""
    return bool(run.follow_ups) and run.follow_ups[-1].after_step >= answer.number


def filled_tokens(run: "Run") -> int:
    """Return about how many tokens the next request's messages have."""
    answered = last_answer(run)
    new = since_last_answer(run)[1]
    chars = sum(_size(message) for message in new)
    known = 0
    compacted = run.compaction.step if run.compaction else 0
    if answered is not None and answered.usage is not None and answered.number > compacted:
        known = answered.usage.total_tokens
    return known + chars // CHARS_PER_TOKEN


def is_nearly_full(run: "Run") -> bool:
    """Tell whether the model's window has no room for another turn, as far as it is known."""
    window = run.context_window
    if window is None and run.session_id is not None:
        window = SESSION_WINDOW
    return window is not None and filled_tokens(run) >= window * COMPACT_AT


def cut(run: "Run") -> int | None:
    """Return the Step up to which the messages can be summed up; none when nothing can be.

    The latest blocks are kept as they are, as many as fit `KEEP_AT` of the window; one at least.
    0 stands for the opening.
    """
    blocks = list(_blocks(run))
    first_is_worth_it = run.compaction is None and bool(run.context.messages)
    if len(blocks) == 1:
        return 0 if first_is_worth_it else None
    room = (run.context_window or 0) * KEEP_AT * CHARS_PER_TOKEN
    newest_left = len(blocks) - 2
    size = _sizes(blocks[-1])
    while newest_left > 0 and size + _sizes(blocks[newest_left]) <= room:
        size += _sizes(blocks[newest_left])
        newest_left -= 1
    if newest_left == 0 and not first_is_worth_it:
        # By our count it fits, by the provider's it does not: keep only the latest.
        newest_left = len(blocks) - 2
    if newest_left == 0 and not first_is_worth_it:
        return None
    return blocks[newest_left].step


def messages_up_to(run: "Run", step: int) -> int:
    """Return how many messages a summary up to `step` stands for."""
    blocks = list(_blocks(run))
    if len(blocks) == 1:
        return len(run.context.messages)
    return sum(len(block.messages) for block in blocks if block.step <= step)


@dataclass(frozen=True)
class _Block:
    step: int
    messages: list[Message]


def _blocks(run: "Run") -> Iterator[_Block]:
    calls: dict[int, list[ToolCall]] = {}
    for call in run.tool_calls:
        calls.setdefault(call.model_step, []).append(call)
    up_to, compacted = 0, 0
    if run.compaction is not None:
        up_to, compacted = run.compaction.up_to, run.compaction.step
    answers = [step for step in run.steps if _is_answer(step) and step.number > up_to]
    ends = [answer.number for answer in answers] + [_end(run)]
    # Said before an answer that stood beside the summary, it is in the summary.
    said_first = [] if ends[0] < compacted else _said_between(run, 0, ends[0])
    yield _Block(up_to, [*_first(run), *said_first])
    for answer, end in zip(answers, ends[1:], strict=True):
        mine = calls.get(answer.number, [])
        said = assistant_message(answer.text, mine, answer.echo)
        following = _said_between(run, answer.number, end)
        told = [*_brought(mine), *_told_unfit(answer)]
        yield _Block(answer.number, [said, *told, *following])


def _first(run: "Run") -> tuple[Message, ...]:
    if run.compaction is None:
        return opening(run)
    asked = task(run)
    if len(asked) > TASK_CHARS:
        asked = asked[:TASK_CHARS] + " […]"
    kept = fitting(run.input_files, TASK_CHARS // CHARS_PER_TOKEN)
    if len(kept) < len(run.input_files):
        left_out = ", ".join(file.described for file in run.input_files[len(kept) :])
        asked += f"\n[It came with files that were too large to be repeated: {left_out}]"
    summary = SUMMARY.format(summary=run.compaction.summary, task=asked)
    return (UserMessage(content=summary, files=kept),)


def _brought(calls: Iterable[ToolCall]) -> list[Message]:
    """Return the results of calls, then what they returned besides: tool messages hold text only.

    What stands between two tool messages of one answer is refused by providers.
    """
    settled = [call for call in calls if call.is_settled]
    results = [ToolMessage(tool_call_id=c.call_id, content=c.result or "") for c in settled]
    files = shown_of(file for call in settled for file in call.files)
    return [*results, UserMessage(content=TOOL_FILES, files=files)] if files else [*results]


def _told_unfit(answer: Step) -> list[Message]:
    """Return why an answer can't be the output, as the model reads it."""
    return [] if answer.unfit is None else [UserMessage(content=answer.unfit.message)]


def _end(run: "Run") -> int:
    """Return the Step before which a message must have been said to be in the transcript.

    While a model is being asked, what is said meanwhile does not change what it was asked: its
    activity may read the transcript more than once, and a compaction sums up a part of it.
    """
    last = run.steps[-1] if run.steps else None
    if last is not None and last.kind == "model" and last.status == "running":
        return last.number
    return len(run.steps) + 1


def _said_between(run: "Run", step: int, end: int) -> list[Message]:
    return [
        UserMessage(content=each.words, files=each.files)
        for each in run.follow_ups
        if step <= each.after_step < end
    ]


def _is_answer(step: Step) -> bool:
    return step.kind == "model" and step.status == "completed" and step.purpose != "compact"


def _sizes(block: _Block) -> int:
    return sum(_size(message) for message in block.messages)


def _size(message: Message) -> int:
    called = message.tool_calls if isinstance(message, AssistantMessage) else ()
    files = message.files if isinstance(message, UserMessage) else ()
    seen = sum(file.tokens for file in files) * CHARS_PER_TOKEN
    return len(message.content or "") + sum(len(call.arguments) for call in called) + seen


def _calls_of(run: "Run", model_step: int) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for call in reversed(run.tool_calls):
        if call.model_step < model_step:
            break
        calls.append(call)
    return calls[::-1]
