"""What the output of a Run has to be: a type of Python's, or a JSON schema.

A provider is shown a schema, and may keep to it or not: what a model answers is always checked
here. For a type, what is shown is narrower than what is taken (`closed`): every field is asked
for, and no other one, as the strict modes of providers want it.
"""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.validators import validator_for
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from perdure.agents.strict_schema import closed, is_strict, references, rooted
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import MAX_SCHEMA_BYTES
from perdure.runs.messages import canonical_json
from perdure.runs.model_json import SHOWN_ERRORS, problems

VALUE = "value"
"""Key of an output that is no object, in the object that providers ask for."""
SHOWN_CHARS = 200
"""Of one problem."""


class Unfit(Exception):
    """A value that can't be the output; says why, for the model to read."""


class BadSchema(Exception):
    """A JSON schema that can't be used; says why."""


class OutputShape:
    """What an output has to be.

    Args:
        schema: As JSON schema.
        fitting: Returns a value as it is kept, in plain JSON types, or raises `Unfit`.

    Attributes:
        schema: What providers are shown: always an object's.
        is_strict: Whether it is one that OpenAI's strict mode takes.
    """

    def __init__(self, schema: dict[str, Any], fitting: Callable[[Any], Any]) -> None:
        self.schema, self._is_wrapped = rooted(schema, VALUE)
        self.is_strict = is_strict(self.schema)
        self._fitting = fitting

    def fitting(self, value: Any) -> Any:
        """Return a value that a model gave as it is kept.

        Raises:
            Unfit: When it does not fit.
        """
        if self._is_wrapped and isinstance(value, dict) and set(value) == {VALUE}:
            return self._fitting(value[VALUE])
        return self._fitting(value)


def shape_of(output_type: Any) -> OutputShape:
    """Return what an agent's `output_type` asks for.

    Raises:
        ConfigurationError: When no schema can be made of it, or it is a bad one.
    """
    try:
        if isinstance(output_type, dict):
            return shape_of_schema(output_type)
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = closed(adapter.json_schema())
    except (PydanticUserError, PydanticSchemaGenerationError, NameError, BadSchema) as exc:
        why = str(exc).partition("\n")[0]
        raise ConfigurationError(
            f"{output_type!r}"[:SHOWN_CHARS] + f" can't be an output: {why}",
            hint="Use a pydantic model, another type that pydantic knows, or a JSON schema.",
        ) from exc
    return OutputShape(schema, lambda value: _fitting_type(adapter, value))


def shape_of_schema(schema: dict[str, Any]) -> OutputShape:
    """Return what a JSON schema asks for.

    Raises:
        BadSchema: When it can't be used.
    """
    try:
        return _shape_of_text(canonical_json(schema).decode())
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadSchema(f"it is no JSON: {exc}") from exc


@lru_cache(maxsize=64)
def _shape_of_text(text: str) -> OutputShape:
    if len(text.encode()) > MAX_SCHEMA_BYTES:
        raise BadSchema(f"it is larger than {MAX_SCHEMA_BYTES:,} bytes")
    schema: dict[str, Any] = json.loads(text)
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    # With no registry of ours, a reference would be fetched from the network.
    check = kind(schema, registry=Registry())
    try:
        kind.check_schema(schema)
        _check_references(schema)
        check.is_valid(None)
    except jsonschema.SchemaError as exc:
        raise BadSchema(f"{exc.json_path}: {exc.message[:SHOWN_CHARS]}") from exc
    except Unresolvable as exc:
        raise BadSchema(f"nothing is at {exc.ref!r}; it may refer only to itself") from exc
    except (re.error, RecursionError) as exc:
        raise BadSchema(f"{type(exc).__name__}: {exc}"[:SHOWN_CHARS]) from exc
    return OutputShape(schema, lambda value: _fitting_schema(check, value))


def _check_references(schema: dict[str, Any]) -> None:
    resource = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).resolver()
    for name, found in references(schema):
        if name == "pattern":
            re.compile(found)
        else:
            resolver.lookup(found)


def _fitting_schema(check: Any, value: Any) -> Any:
    try:
        found = [
            f"{exc.json_path}: {exc.message[:SHOWN_CHARS]}" for exc in check.iter_errors(value)
        ]
    except Exception as exc:  # e.g. numbers beyond what multipleOf can divide
        raise Unfit(f"it could not be checked ({type(exc).__name__})") from exc
    if found:
        raise Unfit("; ".join(found[:SHOWN_ERRORS]))
    return value


def _fitting_type(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Return what a type makes of a value: coerced, defaults filled in, unknown fields left out.

    Where the type does not read again what it writes, the value is kept as the model gave it.
    """
    try:
        typed = adapter.validate_json(canonical_json(value))
    except ValidationError as exc:
        raise Unfit(problems(exc)) from exc
    except Exception as exc:
        raise Unfit(f"it could not be checked ({type(exc).__name__})") from exc
    try:
        written = adapter.dump_python(typed, mode="json", by_alias=True, warnings=False)
        adapter.validate_json(canonical_json(written))
    except Exception:  # noqa: BLE001 - the same
        return value
    return written
