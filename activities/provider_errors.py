"""What providers' refusals mean: statuses and error objects, read as our codes."""

import re
from typing import Any

from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.messages import without_lone_surrogates

KINDS: dict[str, ErrorCode] = {
    "insufficient_quota": ErrorCode.QUOTA_EXHAUSTED,
    "insufficient_balance": ErrorCode.QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": ErrorCode.QUOTA_EXHAUSTED,
    "billing_not_active": ErrorCode.QUOTA_EXHAUSTED,
    "context_length_exceeded": ErrorCode.CONTEXT_OVERFLOW,
    "exceed_context_size_error": ErrorCode.CONTEXT_OVERFLOW,
    "content_filter": ErrorCode.CONTENT_FILTERED,
    "content_policy_violation": ErrorCode.CONTENT_FILTERED,
    "model_not_found": ErrorCode.MODEL_NOT_FOUND,
    "invalid_api_key": ErrorCode.LLM_AUTH,
    "authentication_error": ErrorCode.LLM_AUTH,
    "permission_error": ErrorCode.LLM_AUTH,
    "rate_limit_exceeded": ErrorCode.RATE_LIMITED,
    "rate_limit_error": ErrorCode.RATE_LIMITED,
    "too_many_requests": ErrorCode.RATE_LIMITED,
    "overloaded_error": ErrorCode.LLM_UNAVAILABLE,
}
"""What providers' own codes and types mean, whatever the status that they come with."""

PASSING = (ErrorCode.RATE_LIMITED, ErrorCode.LLM_UNAVAILABLE)
"""What may be gone the next time."""

STATUS_FIELDS = ("code", "status", "status_code", "http_code")
"""Where an error object may hold a status."""

TOO_LONG = re.compile(
    r"(maximum|exceeds?( the)?( available)?|model's) context|context (length|window|size)"
    r"|prompt is too long",
    re.IGNORECASE,
)
"""How servers that have no code for it say that the conversation is too long."""


def inner_status(body: dict[str, Any]) -> int | None:
    """Return the HTTP status that an error object holds, in whatever form."""
    for name in STATUS_FIELDS:
        value = body.get(name)
        text = str(int(value)) if isinstance(value, float) and value == value // 1 else str(value)
        if re.fullmatch(r"[45][0-9]{2}", text):
            return int(text)
    return None


def is_error_object(body: dict[str, Any]) -> bool:
    """Tell whether JSON is itself an error, without an `error` around it, as some send it."""
    if "choices" in body:
        return False
    kinds = f"{body.get('object')} {body.get('type')}".lower()
    return "error" in kinds or inner_status(body) is not None


def envelope_error(envelope: Any) -> RunError:
    """Return the error inside an error object that came in a 200 answer or in a stream."""
    body = _object(envelope)
    guess = 400 if body.get("type") == "invalid_request_error" else 500
    return provider_error(inner_status(body) or guess, body)


def provider_error(status: int, envelope: Any) -> RunError:
    """Return what a provider's refusal means.

    Args:
        status: HTTP status.
        envelope: The `error` object of the answer, or what there is of one.
    """
    body = _object(envelope)
    said = without_lone_surrogates(_said(body))
    words = tuple(str(body.get(name)).lower() for name in ("code", "type"))
    kind = _kind(status, words, said)
    message = f"The provider answered {status}" + (f": {said}" if said else ".")
    return error(kind, message, retryable=kind in PASSING, details={"status": status})


def _object(envelope: Any) -> dict[str, Any]:
    if isinstance(envelope, list) and len(envelope) == 1:
        return _object(envelope[0])
    if not isinstance(envelope, dict):
        return {"message": "" if envelope is None else str(envelope)}
    inner = envelope.get("error")
    return _object(inner) if isinstance(inner, dict) and inner else envelope


def _said(body: dict[str, Any]) -> str:
    for name in ("message", "detail", "error", "msg"):
        if body.get(name):
            return str(body[name])
    return ""


def _kind(status: int, words: tuple[str, ...], said: str) -> ErrorCode:
    for word in words:
        if word in KINDS:
            return KINDS[word]
    if status in BY_STATUS:
        return BY_STATUS[status]
    if status >= 500:
        return ErrorCode.LLM_UNAVAILABLE
    if status == 404 and "model" in said.lower():
        return ErrorCode.MODEL_NOT_FOUND
    if TOO_LONG.search(said):
        return ErrorCode.CONTEXT_OVERFLOW
    return ErrorCode.PROVIDER_REFUSED_REQUEST


BY_STATUS: dict[int, ErrorCode] = {
    401: ErrorCode.LLM_AUTH,
    402: ErrorCode.QUOTA_EXHAUSTED,
    403: ErrorCode.LLM_AUTH,
    408: ErrorCode.LLM_UNAVAILABLE,
    409: ErrorCode.LLM_UNAVAILABLE,
    429: ErrorCode.RATE_LIMITED,
}
"""What a status means by itself."""
