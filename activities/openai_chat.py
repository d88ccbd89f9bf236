"""Chat Completions, read tolerantly: the pure fold from a stream's chunks to one answer.

Providers differ in everything that the reference leaves open, and in some that it does not.
What is understood here: https://platform.openai.com/docs/api-reference/chat-streaming
"""

import json
from dataclasses import dataclass, field
from typing import Any

from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.usage import InputTokensDetails, ModelUsage, OutputTokensDetails

FINISHES = {"max_tokens": "length", "model_length": "length", "function_call": "tool_calls"}
"""Other providers' words for OpenAI's finish reasons."""


@dataclass
class PartialCall:
    """A tool call while its pieces arrive."""

    key: object
    id: str = ""
    name: str = ""
    arguments: str = ""

    def is_followed_by(self, id: str, name: str, arguments: str) -> bool:
        """Tell whether a piece that seems to be this call's begins another one.

        Some label every call with index 0: another id means another call, and so does a name
        with arguments when the ones so far are complete.
        """
        if id and self.id and id != self.id:
            return True
        return bool(name and arguments.strip()) and _is_object(self.arguments)


@dataclass
class Answer:
    """What a stream has said so far. Feed it every chunk, in order."""

    model: str = ""
    text: str = ""
    refusal: str = ""
    calls: list[PartialCall] = field(default_factory=list)
    finish_reason: str = ""
    usage: dict[str, Any] | None = None
    failure: RunError | None = None
    done: bool = False
    """The provider said that its answer is complete."""
    max_bytes: int = MAX_REPLY_BYTES
    """More than this is not read."""

    def feed(self, chunk: Any) -> None:
        """Add one chunk; what is not understood is passed over."""
        if not isinstance(chunk, dict):
            return
        if chunk.get("error"):
            self.failure = envelope_error(chunk["error"])
            return
        if isinstance(chunk.get("model"), str) and chunk["model"]:
            self.model = chunk["model"]
        if isinstance(chunk.get("usage"), dict):
            # The last one counts: some send running totals with every chunk.
            self.usage = chunk["usage"]
        choices = chunk.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0])

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self.text += _text(delta.get("content"))
            self.refusal += _text(delta.get("refusal"))
            pieces = delta.get("tool_calls")
            for piece in pieces if isinstance(pieces, list) else ():
                if isinstance(piece, dict):
                    self._call_piece(piece, whole=not choice.get("delta"))
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.finish_reason = finish
            self.done = True
        if self.finish == "error":
            why = "The provider ended its answer with finish reason 'error'."
            self.failure = error(ErrorCode.LLM_BAD_RESPONSE, why, retryable=True)

    def _call_piece(self, piece: dict[str, Any], *, whole: bool) -> None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        given_id, name = _text(piece.get("id")), _text(function.get("name"))
        arguments = _arguments(function.get("arguments"))
        key = piece.get("index")
        call = None if whole else self._open_call(key, given_id, name)
        if call is not None and call.is_followed_by(given_id, name, arguments):
            call = None
        if call is None:
            call = PartialCall(key=key)
            self.calls.append(call)
        call.id = call.id or given_id
        if name != call.name:  # some repeat the name with every piece
            call.name += name
        call.arguments += arguments

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
    def size(self) -> int:
        """Characters of all that was said."""
        calls = sum(len(call.id) + len(call.name) + len(call.arguments) for call in self.calls)
        return len(self.text) + len(self.refusal) + calls

    @property
    def is_empty(self) -> bool:
        """True when nothing at all was said."""
        return not (self.text or self.refusal or self.calls)

    def problem(self) -> RunError | None:
        """Return why this is no usable answer, though the stream ended; or none."""
        if self.finish == "content_filter":
            return error(ErrorCode.CONTENT_FILTERED)
        if self.refusal and not self.calls:
            return error(ErrorCode.REFUSED)
        if self.finish == "length" and not self.calls:
            return error(ErrorCode.OUTPUT_TRUNCATED)
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: Any) -> str:
    # Some send the object itself rather than its text.
    return json.dumps(value) if isinstance(value, dict) else _text(value)


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def clean(text: str) -> str | None:
    """Return text as it may be kept: valid Unicode, none when empty."""
    return without_lone_surrogates(text) or None


def model_usage(answer: Answer, model: str) -> ModelUsage:
    """Return what the provider reported, with nulls and nonsense read as 0.

    `complete` is false when it reported nothing.
    """
    reported = answer.usage
    if reported is None:
        return ModelUsage(model=model, model_calls=1, complete=False)
    inputs = reported.get("prompt_tokens_details") or {}
    outputs = reported.get("completion_tokens_details") or {}
    return ModelUsage(
        model=model,
        model_calls=1,
        input_tokens=_count(reported, "prompt_tokens"),
        output_tokens=_count(reported, "completion_tokens"),
        input_tokens_details=InputTokensDetails(
            cached_tokens=_count(inputs, "cached_tokens"),
            cache_write_tokens=_count(inputs, "cache_write_tokens"),
        ),
        output_tokens_details=OutputTokensDetails(
            reasoning_tokens=_count(outputs, "reasoning_tokens")
        ),
    )


def _count(holder: Any, name: str) -> int:
    value = holder.get(name) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def envelope_error(envelope: Any) -> RunError:
    """Return the error inside an error object that came in a 200 answer or in a stream."""
    body = envelope if isinstance(envelope, dict) else {"message": str(envelope)}
    code = str(body.get("code"))
    if code.isdecimal() and len(code) == 3:
        return provider_error(int(code), body)
    return provider_error(400 if body.get("type") == "invalid_request_error" else 500, body)


def provider_error(status: int, body: dict[str, Any]) -> RunError:
    """Return what a provider's refusal means.

    Args:
        status: HTTP status.
        body: The `error` object of the answer, or what there is of one.
    """
    said = str(body.get("message") or "")
    words = (str(body.get("code")), str(body.get("type")))
    kind, retryable = _kind(status, words, said)
    message = f"The provider answered {status}" + (f": {said}" if said else ".")
    return error(kind, message, retryable=retryable, details={"status": status})


KINDS: dict[str, ErrorCode] = {
    "insufficient_quota": ErrorCode.QUOTA_EXHAUSTED,
    "context_length_exceeded": ErrorCode.CONTEXT_OVERFLOW,
    "exceed_context_size_error": ErrorCode.CONTEXT_OVERFLOW,
    "model_not_found": ErrorCode.MODEL_NOT_FOUND,
    "invalid_api_key": ErrorCode.LLM_AUTH,
}
"""What providers' own codes mean, whatever the status that they come with."""


def _kind(status: int, words: tuple[str, str], said: str) -> tuple[ErrorCode, bool]:
    for word in words:
        if word in KINDS:
            return KINDS[word], False
    if status == 402:
        return ErrorCode.QUOTA_EXHAUSTED, False
    if status == 404 and "model" in said.lower():
        return ErrorCode.MODEL_NOT_FOUND, False
    if status in (401, 403):
        return ErrorCode.LLM_AUTH, False
    if status == 429 or "rate_limit_exceeded" in words:
        return ErrorCode.RATE_LIMITED, True
    if status in (408, 409) or status >= 500:
        return ErrorCode.LLM_UNAVAILABLE, True
    return ErrorCode.PROVIDER_REFUSED_REQUEST, False
