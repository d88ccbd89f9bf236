"""What a model may reply, as one JSON schema that the llama.cpp server enforces. Pure.

A reply is a call of one of the tools, `{"name": …, "arguments": {…}}`, or an answer,
`{"answer": …}`. The order of the properties is the order in which the model writes them.
"""

from collections.abc import Sequence
from typing import cast

from perdure.engine.local_model.messages import JsonObject, ToolSpec

ANSWER = "answer"
ANSWER_DEFINITION = " answer"
"""Where the answer's schema stands among the definitions. No tool can have a space in its name."""
TEXT: JsonObject = {"type": "string"}

_NAMES = ("properties", "$defs", "definitions")
"""Keywords whose keys are the user's own names."""
_DROPPED = ("pattern", "default", "title", "examples")
"""Not needed to write arguments; the server refuses most forms of `pattern`."""


def reply_schema(tools: Sequence[ToolSpec], answer: JsonObject | None) -> JsonObject:
    """Return the schema of a reply.

    Args:
        tools: What may be called.
        answer: Schema of an answer; None if the reply has to be a call.

    Raises:
        ValueError: Nothing would be left to reply.
    """
    definitions: JsonObject = {tool.name: _arguments(tool) for tool in tools}
    replies = [
        _exact({"name": {"const": tool.name}, "arguments": _reference(tool.name)}) for tool in tools
    ]
    if answer is not None:
        definitions[ANSWER_DEFINITION] = _rooted(answer, ANSWER_DEFINITION)
        replies.append(_exact({ANSWER: _reference(ANSWER_DEFINITION)}))
    if not replies:
        raise ValueError("A reply can be neither a call nor an answer.")
    return {"$defs": definitions, "anyOf": replies}


def _exact(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _reference(name: str) -> JsonObject:
    return {"$ref": f"#/$defs/{name}"}


def _arguments(tool: ToolSpec) -> JsonObject:
    schema = _rooted({"type": "object", **tool.parameters}, tool.name)
    if not schema.get("properties"):
        # Otherwise the grammar allows any object, and the model makes arguments up.
        schema.setdefault("additionalProperties", False)
    return schema


def _rooted(schema: JsonObject, name: str) -> JsonObject:
    """Return a copy whose references hold inside the definition `name`."""
    return cast("JsonObject", _rewritten(schema, f"#/$defs/{name}"))


def _rewritten(node: object, root: str, *, named: bool = False) -> object:
    """Rewrite one node; `named` when its keys are the user's names and not keywords."""
    if isinstance(node, list):
        return [_rewritten(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    result: JsonObject = {}
    for key, value in node.items():
        if named:
            result[key] = _rewritten(value, root)
        elif key in ("const", "enum", "required"):
            result[key] = value
        elif key == "$ref" and isinstance(value, str) and value.startswith("#"):
            result[key] = root + value[1:]
        elif key not in _DROPPED:
            result[key] = _rewritten(value, root, named=key in _NAMES)
    return result
