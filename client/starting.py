"""What a Run may start with: checked, and made exact, before anything is started.

What the workflow will read is what was checked: the request is written as JSON and read back
here, so that nothing is accepted that a worker could not read.
"""

import json
from typing import Any, TypeVar

from pydantic import ValidationError

from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import (
    MAX_CONTEXT_MESSAGES,
    MAX_DEPTH,
    MAX_INPUT_BYTES,
    MAX_KEY_CHARS,
    MAX_METADATA_BYTES,
    MAX_REASON_BYTES,
    MAX_VARIABLES_BYTES,
    Level,
)
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.start import RunStart
from perdure.runs.strict_json import NotJson, is_deeper, strict_json

MAX_SECONDS = 10 * 365 * 24 * 3600.0
"""A workflow that is to wait for much longer fails: its timers have 64 bits of nanoseconds."""

Times = TypeVar("Times", bound=Level)


def checked(start: RunStart) -> RunStart:
    """Return the start of a Run as the workflow will read it.

    Raises:
        InvalidRequest: When the input is empty, or something too large, too deep or no JSON.
    """
    if not start.input.strip() and not start.files:
        raise InvalidRequest("The input is empty.", hint="Say what the agent is to do.")
    if len(start.context.messages) > MAX_CONTEXT_MESSAGES:
        raise _too_large(
            "The context", len(start.context.messages), MAX_CONTEXT_MESSAGES, "messages"
        )
    try:
        raw = strict_json(start)
    except NotJson as exc:
        raise _too_deep_or_no_json(exc) from exc
    if len(raw) > MAX_INPUT_BYTES:
        raise _too_large("The input with its context", len(raw), MAX_INPUT_BYTES, "bytes")
    try:
        exact = RunStart.model_validate_json(raw)
    except ValidationError as exc:
        raise _too_deep_or_no_json(exc) from exc
    _check_depth(exact.context.variables)
    checked_seconds(exact.timeouts)
    metadata = len(strict_json(exact.metadata))
    if metadata > MAX_METADATA_BYTES:
        raise _too_large("The metadata", metadata, MAX_METADATA_BYTES, "bytes")
    if start.session_id is not None and start.context.messages:
        raise InvalidRequest(
            "A Run in a Session gets the conversation from it.",
            hint="Give no messages, or no session_id.",
        )
    return exact


def checked_id(what: str, given: str) -> str:
    """Return a name that may be used.

    Raises:
        InvalidRequest: When it can't name anything.
    """
    if not is_valid_id(given):
        raise InvalidRequest(
            f"{given[:80]!r} can't name a {what}.",
            hint="Use 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit.",
        )
    return given


def checked_key(given: str) -> str:
    """Return an idempotency key.

    Raises:
        InvalidRequest: When it is empty, long or not printable.
    """
    if not given.strip() or len(given) > MAX_KEY_CHARS or not given.isprintable():
        raise InvalidRequest(
            f"{given[:80]!r} can't be an idempotency key.",
            hint=f"Use 1 to {MAX_KEY_CHARS} printable characters, such as a UUID.",
        )
    return given


def checked_variables(given: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a Session as the workflow will read them.

    Raises:
        InvalidRequest: When they are too large, too deep or no JSON.
    """
    try:
        raw = strict_json(given)
    except NotJson as exc:
        raise _too_deep_or_no_json(exc) from exc
    if len(raw) > MAX_VARIABLES_BYTES:
        raise _too_large("The variables", len(raw), MAX_VARIABLES_BYTES, "bytes")
    exact: dict[str, Any] = json.loads(raw)
    _check_depth(exact)
    return exact


def checked_seconds(given: Times) -> Times:
    """Return what holds durations, such as timeouts.

    Raises:
        InvalidRequest: When one is so long that Temporal can't count it.
    """
    for name, value in given:
        if name.endswith("_s") and value is not None and value > MAX_SECONDS:
            raise InvalidRequest(
                f"{name} is {value:g} seconds; {MAX_SECONDS:,.0f}, ten years, are allowed.",
                hint="Leave it out for the default.",
            )
    return given


def checked_reason(given: str) -> str:
    """Return the reason of a cancel or a pause.

    Raises:
        InvalidRequest: When it is too long.
    """
    reason = without_lone_surrogates(given)
    size = len(reason.encode())
    if size > MAX_REASON_BYTES:
        raise _too_large("The reason", size, MAX_REASON_BYTES, "bytes")
    return reason


def _too_large(what: str, size: int, allowed: int, unit: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what} has {size:,} {unit}; {allowed:,} are allowed.",
        hint="Pass large data by reference, through a tool.",
        code=ErrorCode.PAYLOAD_TOO_LARGE,
    )


def _too_deep_or_no_json(exc: Exception | None) -> InvalidRequest:
    why = f"it is more than {MAX_DEPTH} levels deep" if exc is None else str(exc).rstrip(".")
    return InvalidRequest(
        f"The context can't be written as JSON: {why}.",
        hint=f"Use plain JSON types, at most {MAX_DEPTH} levels deep.",
    )


def _check_depth(variables: dict[str, Any]) -> None:
    if is_deeper(variables, MAX_DEPTH):
        raise _too_deep_or_no_json(None)
