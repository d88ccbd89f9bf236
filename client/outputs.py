"""JSON schemas of outputs, as callers give them: checked before anything is started."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.limits import MAX_DEPTH, MAX_SCHEMA_BYTES
from perdure.runs.messages import canonical_json
from perdure.runs.strict_json import is_deeper

OutputSchema = Mapping[str, Any] | type[Any]
"""A JSON schema, or a type that pydantic knows, such as a pydantic model."""

WAY_OUT = "Give a JSON schema as a dict, or a pydantic model."


def checked_schema(given: OutputSchema | None) -> dict[str, Any] | None:
    """Return a schema as the workflow will read it.

    Raises:
        InvalidRequest: When it is none, too large, too deep, or no JSON.
    """
    if given is None:
        return None
    schema = dict(given) if isinstance(given, Mapping) else _schema_of_type(given)
    try:
        raw = canonical_json(schema)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidRequest(f"The output_schema is no JSON: {exc}.", hint=WAY_OUT) from exc
    if len(raw) > MAX_SCHEMA_BYTES:
        raise InvalidRequest(
            f"The output_schema has {len(raw):,} bytes; {MAX_SCHEMA_BYTES:,} are allowed.",
            hint="Declare it as an agent's output_type, or ask for less at once.",
            code=ErrorCode.PAYLOAD_TOO_LARGE,
        )
    if is_deeper(schema, MAX_DEPTH):
        raise InvalidRequest(
            f"The output_schema has more than {MAX_DEPTH} levels.",
            hint="Use $defs and $ref instead of nesting.",
        )
    exact: dict[str, Any] = json.loads(raw)
    return exact


def read_schema(path: Path | None) -> dict[str, Any] | None:
    """Return the schema in a file.

    Raises:
        InvalidRequest: When the file can't be read, or holds no JSON object.
    """
    if path is None:
        return None
    try:
        schema = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidRequest(f"{str(path)!r} holds no JSON: {exc}.") from exc
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{str(path)!r} holds no JSON schema.", hint="It is an object.")
    return schema


def _schema_of_type(given: Any) -> dict[str, Any]:
    try:
        return TypeAdapter(given).json_schema()
    except (PydanticUserError, NameError) as exc:
        why = str(exc).partition("\n")[0]
        raise InvalidRequest(f"{given!r} can't be an output: {why}", hint=WAY_OUT) from exc
