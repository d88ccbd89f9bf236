"""A case of the bank as data: what the model server answers, and what is right then."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.runs.errors import ErrorCode
from perdure.runs.messages import Message
from perdure.runs.retries import RETRIES
from tests.activities.streams import delta, entry, whole
from tests.harness.scripted_openai import RecordedRequest, Reply, chunks, status, text

END = text("Done.")
"""How most conversations go on after the turn that matters."""
FAST_MS = "20"
"""Asked for with `retry-after-ms` where an attempt fails, so that nobody waits for backoff."""


def attempts(code: str) -> int:
    """Return how many requests an error that lasts is worth."""
    return RETRIES[ErrorCode(code)].max_attempts


@dataclass(frozen=True)
class Case:
    """One input of one number of the bank."""

    id: str
    """Part and number; several inputs share one."""
    what: str
    replies: tuple[Reply, ...]
    """What is answered, one a request; each must be asked for."""
    refused_if: Callable[[RecordedRequest], bool] | None = None
    """Requests that the server answers with a 400 instead."""
    input: str = "Go."
    agent: str = "helper"
    context: tuple[Message, ...] = ()
    """The conversation so far."""

    status: str = "completed"
    code: str | None = None
    """Of the Run's error."""
    output: str | None = "Done."
    """None: whatever it is, it is not empty if the Run completed."""
    requests: int | None = None
    """HTTP requests in all; as many as there are replies when none."""
    executed: tuple[str, ...] = ()
    """Tool executions, sorted."""
    calls: Sequence[Mapping[str, Any]] | None = None
    """Of each tool call that was asked for: some of its fields; `code` is that of its error."""
    step: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the last model Step but those that only say "Done."."""
    usage: tuple[int, int, bool] | None = None
    """Input tokens, output tokens, complete."""
    complete: bool | None = None
    """Whether all usage is known, where the numbers do not matter."""
    next_request: tuple[str, ...] = ()
    """What the last request holds, word for word."""
    never_sent: tuple[str, ...] = ()
    """What no request holds."""
    error_holds: tuple[str, ...] = ()
    """What the Run's error says, somewhere."""
    no_answer: bool = False
    """Nothing came over HTTP that could be kept with the error."""
    secret: str = ""
    """What must not be written anywhere."""
    history_holds: tuple[str, ...] = ()
    """What the Run's history keeps."""

    def __str__(self) -> str:
        return f"{self.id} {self.what}"


def rejected(code: str, **fields: Any) -> dict[str, Any]:
    """Return what is to be said of a call that is not executed: `{}` goes back."""
    return {"status": "rejected", "code": code, "arguments": "{}", **fields}


def done(**fields: Any) -> dict[str, Any]:
    """Return what is to be said of a call that was executed."""
    return {"status": "completed", "code": None, **fields}


def body(answer: Mapping[str, Any], **headers: str) -> Reply:
    """Answer with a whole JSON body."""
    return status(200, answer).with_headers(retry_after_ms=FAST_MS, **headers)


def said(finish_reason: str | None = "stop", **message: Any) -> Reply:
    """Answer with a message, as a whole body."""
    choice = {"index": 0, "message": {"role": "assistant", **message}}
    return body({"choices": [{**choice, "finish_reason": finish_reason}]})


def asked(*calls: Mapping[str, Any], **message: Any) -> Reply:
    """Answer with tool calls, as a whole body."""
    return body(whole(*map(dict, calls), **message))


def one(name: str, arguments: Any, id: Any = "c1") -> Reply:
    """Answer with one tool call, as a whole body."""
    return asked(entry(id, name, arguments))


def stream(*items: Mapping[str, Any] | bytes) -> Reply:
    """Answer with these stream events."""
    return chunks(*items).with_headers(retry_after_ms=FAST_MS)


def failing(code: int, error: Any = None, **headers: str) -> Reply:
    """Answer with an error status that asks for a short wait."""
    wrapped = None if error is None else {"error": error}
    return status(code, wrapped).with_headers(
        **{"retry_after_ms": FAST_MS, "x_request_id": "req_7", **headers}
    )


USED = {"prompt_tokens": 7, "completion_tokens": 3}
"""Usage that an answer reports."""
STOP = delta("stop")
CALLS = delta("tool_calls")


def ends(number: str, what: str, code: str | None, *replies: Reply, **expected: Any) -> Case:
    """Return a case of a Run that fails, or that completes where there is no code."""
    expected = {"output": None, "status": "failed" if code else "completed", **expected}
    return Case(number, what, replies, code=code, **expected)


def finished(reason: Any, message: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a whole answer with this finish reason."""
    said = {"role": "assistant", **(message or {"content": None})}
    return {"choices": [{"index": 0, "message": said, "finish_reason": reason}], "usage": USED}


AT_A_TIME = 4
"""Lost attempts in one Run: one fewer than any policy allows."""


def lost(number: str, replies: Mapping[str, Reply], **expected: Any) -> list[Case]:
    """Return cases of attempts that are all lost, after which the Run goes on and ends well."""
    cases: list[Case] = []
    for some in batched(replies.items(), AT_A_TIME):
        attempt = {"attempt": len(some) + 1, "text": "Done."}
        wanted = {"step": attempt, "complete": False, "output": "Done.", **expected}
        what = "lost: " + ", ".join(name for name, _ in some)
        cases.append(ends(number, what, None, *(reply for _, reply in some), END, **wanted))
    return cases


def batched(items: Iterable[tuple[str, Reply]], size: int) -> Iterator[list[tuple[str, Reply]]]:
    """Yield items, some at a time."""
    left = list(items)
    while left:
        yield left[:size]
        left = left[size:]
