"""What a function takes: read from its signature and docstring, for pydantic and for the model.

The fields of the pydantic model have names of their own, and the parameters' as aliases: so a
parameter may be called like something that pydantic keeps for itself (`schema`, `json`, `_x`).
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from perdure.agents.context import ToolContext
from perdure.runs.errors import ConfigurationError

NAMED_SCHEMAS = ("properties", "$defs", "patternProperties", "dependentSchemas")
"""Keywords whose values are schemas by names that somebody chose."""
DATA = ("default", "const", "enum", "examples")
"""Keywords whose values are no schemas, whatever they look like."""


@dataclass(frozen=True)
class Parameters:
    """What the parameters of a function are.

    Attributes:
        model: Of those that a model gives; its fields have the parameters' names as aliases.
        names: Of the same, by field.
        context: Names of those that get the `ToolContext`.
    """

    model: type[BaseModel]
    names: dict[str, str]
    context: tuple[str, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "Parameters":
        """Read a signature.

        Raises:
            ConfigurationError: When a model can't give one of the parameters.
            NameError: When an annotation names what is not there.
            pydantic.PydanticUserError: When there is no schema for one.
        """
        described = {each.arg_name: each.description for each in documented(function).params}
        hints = get_type_hints(underlying(function), include_extras=True)
        fields: dict[str, Any] = {}
        names: dict[str, str] = {}
        context: list[str] = []
        for parameter in _given_by_callers(function):
            _refuse_unusable(parameter, name, hints)
            hint = hints[parameter.name]
            if _is_context(hint):
                context.append(parameter.name)
                continue
            field = f"p{len(fields)}"
            names[field] = parameter.name
            fields[field] = (hint, _field(parameter, hint, described.get(parameter.name)))
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        return cls(model, names, tuple(context))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of what a model gives."""
        made = self.model.model_json_schema(schema_generator=_Quiet)
        return dict(_without_titles(made))


class _Quiet(GenerateJsonSchema):
    # A default that JSON can't hold is none that a model has to know.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - theirs


def underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what has the annotations: the function of a partial, `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def documented(function: Callable[..., Any]) -> docstring_parser.Docstring:
    """Return what the docstring says, of Google's or another known style."""
    while isinstance(function, functools.partial):
        function = function.func
    found = underlying(function)
    # `getdoc` would find what Python says of every `__call__`.
    own = inspect.getdoc(found) if found is function else found.__doc__ or type(function).__doc__
    return docstring_parser.parse(inspect.cleandoc(own or ""))


def _given_by_callers(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters without those that a partial has set: they are not the model's."""
    parameters = inspect.signature(function).parameters.values()
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return [each for each in parameters if each.name not in bound]


def _refuse_unusable(parameter: inspect.Parameter, tool: str, hints: dict[str, Any]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigurationError(f"Tool {tool!r} can't take *{parameter.name}.")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ConfigurationError(
            f"Parameter {parameter.name!r} of tool {tool!r} can't be given by name.",
            hint="Remove the `/`; a model gives all arguments by name.",
        )
    if parameter.name not in hints:
        way_out = "Annotate it; the model's schema is made from the types."
        if parameter.name == "self":
            way_out = "Make a tool of the method of an object: tool(thing.method)."
        raise ConfigurationError(
            f"Parameter {parameter.name!r} of tool {tool!r} has no type.", hint=way_out
        )
    if isinstance(parameter.default, FieldInfo):
        raise ConfigurationError(
            f"Parameter {parameter.name!r} of tool {tool!r} has a Field as its default.",
            hint="Write Annotated[type, Field(…)] = default, so that the function can be called.",
        )


def _is_context(hint: Any) -> bool:
    wrapped = get_origin(hint) in (Union, UnionType, Annotated)
    return hint is ToolContext or (wrapped and ToolContext in get_args(hint))


def _field(parameter: inspect.Parameter, hint: Any, told: str | None) -> Any:
    default = ... if parameter.default is parameter.empty else parameter.default
    name = parameter.name
    about = _annotated(hint) or told
    # Also where an annotation has an alias: a model calls parameters as the function does.
    return Field(default, alias=name, description=about)


def _annotated(hint: Any) -> str | None:
    """Return what the annotation itself says: it is nearer to the parameter than a docstring."""
    for extra in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        if isinstance(extra, str):
            return extra
        if isinstance(extra, FieldInfo) and extra.description:
            return extra.description
    return None


def _without_titles(schema: Any) -> Any:
    """Return a schema without titles: pydantic makes them of the names, which are there."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    left: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in NAMED_SCHEMAS:
            left[keyword] = {name: _without_titles(each) for name, each in value.items()}
        elif keyword in DATA:
            left[keyword] = value
        elif keyword != "title":
            left[keyword] = _without_titles(value)
    return left
