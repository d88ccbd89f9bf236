"""Arguments of a call against the JSON schema that the server gave for its tool.

The schema is somebody else's text. What would let it stop the worker is left to the server, which
checks its arguments itself: regular expressions, and comparing all elements of a list. Nothing is
fetched: a reference that leads out of the schema makes the check do without it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from referencing import Registry
from referencing.exceptions import Unresolvable

LEFT_TO_THE_SERVER = (
    "pattern",
    "patternProperties",
    "format",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
SHOWN_ERRORS = 3
MESSAGE_CHARS = 300
"""Of one error; the library repeats the value in it."""


class ArgumentSchema:
    """What the arguments of a tool have to be.

    Args:
        title: Named by errors.
        schema: As the server gave it.

    Raises:
        jsonschema.SchemaError: When it is no JSON schema.
    """

    def __init__(self, title: str, schema: Mapping[str, Any]) -> None:
        self._title = title
        dialect = validator_for(schema, default=jsonschema.Draft202012Validator)
        dialect.check_schema(schema)
        self._validator: Validator = _bounded(dialect)(schema, registry=Registry())

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Check arguments.

        Raises:
            ValidationError: Says what does not fit, as pydantic does for tools in Python.
        """
        found: list[InitErrorDetails] = []
        try:
            for problem in self._validator.iter_errors(arguments):
                said = {"said": problem.message[:MESSAGE_CHARS]}
                kind = PydanticCustomError("json_schema", "{said}", said)
                at = tuple(part for part in problem.absolute_path)
                found.append(InitErrorDetails(type=kind, loc=at, input=None))
                if len(found) == SHOWN_ERRORS:
                    break
        except (Unresolvable, RecursionError):
            return
        if found:
            raise ValidationError.from_exception_data(self._title, found)


@cache
def _bounded(dialect: Any) -> Any:
    skipped = dict.fromkeys(LEFT_TO_THE_SERVER, _nothing)
    return extend(dialect, skipped | {"additionalProperties": _additional_properties})


def _nothing(*_: object) -> Iterator[jsonschema.ValidationError]:
    return iter(())


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    if "patternProperties" in schema:
        return iter(())  # which ones are additional, regular expressions would tell
    checked = jsonschema.Draft202012Validator.VALIDATORS["additionalProperties"]
    return iter(checked(validator, allowed, instance, schema) or ())
