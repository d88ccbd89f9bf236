"""Chat Completions, read tolerantly: the pure fold from a stream's chunks to one answer.

Providers differ in everything that the reference leaves open, and in some that it does not.
What is understood here: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from dataclasses import dataclass, field
from typing import Any

from perdure.runs.errors import ErrorCode, RunError, error
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
            for piece in delta.get("tool_calls") or ():
                if isinstance(piece, dict):
                    self._call_piece(piece)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.finish_reason = finish
            self.done = True

    def _call_piece(self, piece: dict[str, Any]) -> None:
        function = piece.get("function") or {}
        given_id = piece.get("id") or ""
        key = piece.get("index", given_id or len(self.calls))
        call = next((c for c in reversed(self.calls) if c.key == key), None)
        # Some label every call with index 0: another id means another call.
        if call is None or (given_id and call.id and given_id != call.id):
            call = PartialCall(key=key)
            self.calls.append(call)
        call.id = call.id or str(given_id)
        call.name += function.get("name") or ""
        call.arguments += function.get("arguments") or ""

    @property
    def finish(self) -> str:
        """The finish reason in OpenAI's words."""
        lowered = self.finish_reason.lower()
        return FINISHES.get(lowered, lowered)

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
    code = body.get("code")
    status = code if isinstance(code, int) else 500
    return provider_error(status, body)


def provider_error(status: int, body: dict[str, Any]) -> RunError:
    """Return what a provider's refusal means.

    Args:
        status: HTTP status.
        body: The `error` object of the answer, or what there is of one.
    """
    said = str(body.get("message") or "")
    code = str(body.get("code") or body.get("type") or "")
    kind, retryable = _kind(status, code, said)
    message = f"The provider answered {status}" + (f": {said}" if said else ".")
    return error(kind, message, retryable=retryable, details={"status": status})


def _kind(status: int, code: str, said: str) -> tuple[ErrorCode, bool]:
    if "insufficient_quota" in code:
        return ErrorCode.QUOTA_EXHAUSTED, False
    if code in ("context_length_exceeded", "exceed_context_size_error"):
        return ErrorCode.CONTEXT_OVERFLOW, False
    if code == "model_not_found" or (status == 404 and "model" in said.lower()):
        return ErrorCode.MODEL_NOT_FOUND, False
    if status in (401, 403):
        return ErrorCode.LLM_AUTH, False
    if status == 429:
        return ErrorCode.RATE_LIMITED, True
    if status in (408, 409) or status >= 500:
        return ErrorCode.LLM_UNAVAILABLE, True
    return ErrorCode.PROVIDER_REFUSED_REQUEST, False
