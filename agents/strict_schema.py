"""JSON schemas in the form that providers want for outputs. Pure."""

from collections.abc import Iterator
from typing import Any

NAMED = ("properties", "$defs", "definitions", "patternProperties")
"""Keywords whose keys are names that the user gave."""
DATA = ("const", "enum", "default", "examples", "required")
"""Keywords with values that are no schemas."""

STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items anyOf enum const description title $ref "
    "$defs definitions format pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
    "minItems maxItems $schema".split()
)
"""What OpenAI's strict mode takes: https://platform.openai.com/docs/guides/structured-outputs"""
STRICT_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())

Schema = dict[str, Any]


def rooted(schema: Schema, key: str) -> tuple[Schema, bool]:
    """Return a schema that is an object's, as providers want it, and whether it had to be wrapped.

    Args:
        schema: What the output has to be.
        key: The only field of the object that is made around what is none.
    """
    reference = schema.get("$ref", "")
    if set(schema) <= {"$ref", "$defs"} and reference.startswith("#/$defs/"):
        definition = schema["$defs"].get(reference.removeprefix("#/$defs/"))
        if isinstance(definition, dict):
            schema = {**definition, "$defs": schema["$defs"]}
    if schema.get("type") == "object" and "anyOf" not in schema:
        return schema, False
    if any(not found.startswith("#/$defs/") for _, found in references(schema)):
        return schema, False  # its references would point elsewhere
    inner = {name: value for name, value in schema.items() if name not in ("$defs", "$schema")}
    outer: Schema = {
        "type": "object",
        "properties": {key: inner},
        "required": [key],
        "additionalProperties": False,
    }
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    return outer, True


def closed(schema: Schema) -> Schema:
    """Return a schema that pydantic made of a type, narrowed to what strict modes take.

    Every field is required, no other allowed; defaults and titles are left out, and of several
    types, whichever fits.
    """
    definitions: Schema = schema.get("$defs", {})
    closed_: Schema = _closed(schema, definitions)
    return closed_


def is_strict(schema: Any) -> bool:
    """Tell whether OpenAI's strict mode takes a schema: it refuses all requests with others."""
    return all(_is_strict_node(node) for node in _nodes(schema)) and "anyOf" not in schema


def references(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield each reference and each pattern of a schema, with its keyword."""
    for node in _nodes(schema):
        for name in ("$ref", "$dynamicRef", "pattern"):
            if isinstance(node.get(name), str):
                yield name, node[name]


def _nodes(node: Any, *, named: bool = False) -> Iterator[Schema]:
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item)
    if not isinstance(node, dict):
        return
    if not named:
        yield node
    for name, value in node.items():
        if named or name not in DATA:
            yield from _nodes(value, named=not named and name in NAMED)


def _is_strict_node(node: Schema) -> bool:
    if not set(node) <= STRICT_KEYWORDS or "(?" in str(node.get("pattern", "")):
        return False
    if node.get("format", "date") not in STRICT_FORMATS:
        return False
    if "$ref" in node:
        return set(node) <= {"$ref", "$defs"}
    if node.get("type") == "object":
        properties = node.get("properties", {})
        is_closed = node.get("additionalProperties") is False
        return is_closed and set(node.get("required", ())) == set(properties)
    return bool({"type", "anyOf", "enum", "const"} & set(node))


def _closed(node: Any, definitions: Schema, *, named: bool = False) -> Any:
    if isinstance(node, list):
        return [_closed(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if named:
        return {name: _closed(value, definitions) for name, value in node.items()}
    found = dict(node)
    if "$ref" in found and set(found) - {"$ref", "$defs"}:
        # Strict modes take nothing beside a reference: its words go into a copy.
        target = definitions.get(found.pop("$ref").removeprefix("#/$defs/"), {})
        found = {**target, **found}
    result = {
        ("anyOf" if name == "oneOf" else name): value
        if name in DATA
        else _closed(value, definitions, named=name in NAMED)
        for name, value in found.items()
        if name not in ("default", "title", "discriminator")
    }
    if "properties" in result:
        result.setdefault("additionalProperties", False)
        result["required"] = list(result["properties"])
    return result
