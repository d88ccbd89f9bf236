"""Chat Completions, read tolerantly: the pure fold from a stream's chunks to one answer.

Providers differ in everything that the reference leaves open, and in some that it does not.
What is understood here: https://platform.openai.com/docs/api-reference/chat-streaming
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from perdure.activities.provider_errors import envelope_error, is_error_object
from perdure.activities.reported_usage import is_report, reports_more
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES
from perdure.runs.messages import without_lone_surrogates

FINISHES = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "function_call": "tool_calls",
    "safety": "content_filter",
    "prohibited_content": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refused",
    "network_error": "error",
    "malformed_function_call": "error",
    "insufficient_system_resource": "error",
}
"""Other providers' words for OpenAI's finish reasons, and for what OpenAI has no word for."""

NOT_FINISHED = ("", "null", "none")
"""Finish reasons that some send with every chunk and that say nothing."""

LABEL_CHARS = 200
"""Longest name of a model, or finish reason, that is kept."""

NO_EXTRA = frozenset(
    "role content refusal tool_calls function_call name id index type audio annotations".split()
)
"""Fields of a message that are read, or that nobody wants back."""
EXTRA_CHARS = 64 * 1024
"""How much is kept of each other field, reasoning for one."""
EXTRA_FIELDS = 8
"""How many other fields are kept."""


@dataclass
class PartialCall:
    """A tool call while its pieces arrive."""

    key: object
    id: str = ""
    name: str = ""
    arguments: str = ""
    announced: bool = False
    """Its name came once more when its arguments were complete: perhaps another call begins."""

    def is_followed_by(self, id: str, name: str, arguments: str) -> bool:
        """Tell whether a piece that seems to be this call's begins another one.

        Some label every call with index 0: another id means another call, and so does a name
        with arguments, or another name, when the arguments so far are complete.
        """
        if id and self.id and id != self.id:
            # Some make up an id for every piece: only with a name it is a call's own.
            return bool(name) or _is_object(self.arguments)
        if self.announced and arguments.strip():
            return True
        begins = bool(name) and (bool(arguments.strip()) or name != self.name)
        return begins and _is_object(self.arguments)


@dataclass
class Answer:
    """What a stream has said so far. Feed it every chunk, in order."""

    model: str = ""
    response_id: str = ""
    text: str = ""
    refusal: str = ""
    calls: list[PartialCall] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    """Text in fields of the message that the reference does not have, cut at `EXTRA_CHARS`."""
    finish_reason: str = ""
    usage: dict[str, Any] | None = None
    failure: RunError | None = None
    done: bool = False
    """The provider said that its answer is complete."""
    max_bytes: int = MAX_REPLY_BYTES
    """More than this is not read."""
    size: int = 0
    """Bytes of all that was said, in UTF-8."""
    streamed: bool = False
    """It came in deltas: a whole message after them only says it all once more."""
    waiting: bool = False
    """The request has not gone out yet."""
    first_at: float | None = None
    """When its first piece came, on the clock of `time.monotonic`."""

    def feed(self, chunk: Any) -> None:
        """Add one chunk; what is not understood is passed over."""
        if not isinstance(chunk, dict):
            return
        if chunk.get("error") or is_error_object(chunk):
            self.failure = envelope_error(chunk.get("error") or chunk)
            return
        self.model = _label(chunk.get("model")) or self.model
        self.response_id = _label(chunk.get("id")) or self.response_id
        self._used(chunk.get("usage"))
        choices = chunk.get("choices")
        for position, choice in enumerate(choices if isinstance(choices, list) else ()):
            # We ask for one choice. Others, where somebody sends them, are other answers.
            if isinstance(choice, dict) and _index(choice.get("index"), position) == 0:
                self._choice(choice)

    def _used(self, usage: Any) -> None:
        # The last one counts: some send running totals with every chunk, some zeros as well.
        if is_report(usage) and (self.usage is None or reports_more(usage)):
            self.usage = usage

    def _choice(self, choice: dict[str, Any]) -> None:
        self._used(choice.get("usage"))
        if isinstance(choice.get("error"), dict) and choice["error"]:
            self.failure = envelope_error(choice["error"])
            return
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict) and delta:
            self.streamed = True
            self._said(delta, whole=False)
        elif isinstance(message, dict) and not self.streamed:
            self._said(message, whole=True)
        finish = _label(choice.get("finish_reason"))
        if finish.lower() not in NOT_FINISHED:
            self.finish_reason = finish
            self.done = True
        if self.finish == "error":
            why = f"The provider ended its answer with finish reason {self.finish_reason!r}."
            self.failure = error(ErrorCode.LLM_BAD_RESPONSE, why, retryable=True)

    def _said(self, message: dict[str, Any], *, whole: bool) -> None:
        text, refusal = _text(message.get("content")), _text(message.get("refusal"))
        refusal += _text(message.get("content"), "refusal")
        self.text += text
        self.refusal += refusal
        self.size += _bytes(text) + _bytes(refusal)
        pieces = message.get("tool_calls")
        for piece in pieces if isinstance(pieces, list) else (pieces,):
            if isinstance(piece, dict):
                self._call_piece(piece, whole=whole)
        for name, value in message.items():
            if name not in NO_EXTRA and isinstance(value, str) and value:
                self._keep_extra(_label(name), value)

    def _keep_extra(self, name: str, value: str) -> None:
        if name in self.extra or len(self.extra) < EXTRA_FIELDS:
            so_far = self.extra.get(name, "")
            self.extra[name] = so_far + value[: EXTRA_CHARS - len(so_far)]

    def _call_piece(self, piece: dict[str, Any], *, whole: bool) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else piece
        given_id, name = _id(piece.get("id")), _text(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        key = _index(piece.get("index"), None)
        call = None if whole else self._open_call(key, given_id, name)
        if call is not None and call.is_followed_by(given_id, name, arguments):
            name = name or call.name
            call = None
        if call is None:
            if not (given_id or name or arguments):
                return
            call = PartialCall(key=key)
            self.calls.append(call)
        if not call.id:
            call.id = given_id
            self.size += _bytes(given_id)
        if name != call.name:  # some repeat the name with every piece
            call.name += name
            self.size += _bytes(name)
        elif not given_id:
            call.announced = _is_object(call.arguments)
        call.arguments += arguments
        self.size += _bytes(arguments)

    def _open_call(self, key: object, given_id: str, name: str) -> PartialCall | None:
        """Return the call that a piece may belong to: by index, else by id, else the last."""
        newest_first = reversed(self.calls)
        if key is not None:
            return next((call for call in newest_first if call.key == key), None)
        if given_id:
            return next((call for call in newest_first if call.id == given_id), None)
        return None if name else next(newest_first, None)

    @property
    def finish(self) -> str:
        """The finish reason in OpenAI's words."""
        lowered = self.finish_reason.lower()
        return FINISHES.get(lowered, lowered)

    @property
    def is_empty(self) -> bool:
        """True when nothing at all was said; blanks say nothing."""
        return not (self.text.strip() or self.refusal.strip() or self.calls)

    def problem(self) -> RunError | None:
        """Return why this is no usable answer, though the stream ended; or none."""
        if self.finish == "content_filter":
            return error(ErrorCode.CONTENT_FILTERED)
        if (self.refusal.strip() or self.finish == "refused") and not self.calls:
            return error(ErrorCode.REFUSED)
        if self.finish == "length" and not self.calls:
            return error(ErrorCode.OUTPUT_TRUNCATED)
        return None


def _text(value: Any, kind: str = "text") -> str:
    """Return text that is given as such or, as some do, as a list of parts."""
    if isinstance(value, str):
        return value if kind == "text" else ""
    return "".join(_parts(value, kind)) if isinstance(value, list | dict) else ""


def _parts(value: Any, kind: str) -> Iterator[str]:
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, str) and kind == "text":
            yield part
        elif isinstance(part, dict) and isinstance(part.get(kind), str):
            # Parts of other kinds, such as thoughts, may hold a `text` too: no answers.
            if part.get("type") in (None, kind, f"output_{kind}"):
                yield part[kind]


def _label(value: Any) -> str:
    return without_lone_surrogates(value)[:LABEL_CHARS] if isinstance(value, str) else ""


def _id(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else ""


def _index(value: Any, otherwise: int | None) -> int | None:
    """Return an index that may come as a number of any kind, or as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        return int(value)
    return otherwise


def _arguments(value: Any) -> str:
    # Some send the object itself rather than its text. What is no object is refused later.
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def clean(text: str) -> str | None:
    """Return text as it may be kept: valid Unicode, none when empty."""
    return without_lone_surrogates(text) or None
