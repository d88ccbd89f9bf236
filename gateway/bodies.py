"""Bodies of requests: read after the caller is known, bounded, as strict JSON, checked.

FastAPI would read a body before it asks who calls. Here it is a dependency like any other, and
comes after the caller's in every route.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from perdure.gateway.problems import Refused, invalid
from perdure.runs.errors import ErrorCode, PerdureError
from perdure.runs.files import MAX_FILES_BYTES
from perdure.runs.limits import MAX_INPUT_BYTES

SMALL_BYTES = 1024 * 1024
"""Of a body without files."""
LARGE_BYTES = MAX_INPUT_BYTES + MAX_FILES_BYTES // 3 * 4 + SMALL_BYTES
"""Of one with files, in base64; 47 MB."""
THROWN_AWAY_BYTES = 64 * 1024 * 1024
"""Of a body that is too large, so much is read all the same: who is still sending reads no
answer."""

Body = TypeVar("Body", bound=BaseModel)


def body(kind: type[Body], max_bytes: int = SMALL_BYTES) -> Callable[[Request], Awaitable[Body]]:
    """Return the dependency of a route that takes a body; one that is empty is an empty object."""

    async def read(request: Request) -> Body:
        raw = await _read(request, max_bytes)
        try:
            # Strict: a word is no number, nor a number a time.
            return kind.model_validate_json(raw or b"{}", strict=True)
        except ValidationError as exc:
            raise _refusal(exc) from exc

    return read


async def _read(request: Request, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= max_bytes:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > THROWN_AWAY_BYTES:
            break
    if size > max_bytes:
        raise Refused(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"The body is larger than the {max_bytes:,} bytes that are allowed here.",
        )
    return b"".join(chunks)


def _refusal(exc: ValidationError) -> PerdureError:
    faults = exc.errors(include_input=False, include_url=False, include_context=True)
    if faults[0]["type"] != "json_invalid":
        return invalid(faults, ("body",))
    why = faults[0]["ctx"]["error"]
    # Well-formed or not, what is too deep is not looked at any further.
    status = 422 if "recursion" in why else 400
    return Refused(
        ErrorCode.PROVIDER_REFUSED_REQUEST,
        f"The body is no JSON that can be read: {why}.",
        hint="Send one JSON object in UTF-8, with at most 200 levels.",
        status=status,
    )


def taken(kind: type[BaseModel]) -> dict[str, Any]:
    """Return what the OpenAPI document says of a route's body; `openapi` adds the schema."""
    TAKEN[kind.__name__] = kind
    required = any(field.is_required() for field in kind.model_fields.values())
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": {"schema": schema}},
        }
    }


TAKEN: dict[str, type[BaseModel]] = {}
"""The bodies that routes take, by name."""
