"""A tool: a typed Python function that a model may call.

Its schema comes from the signature and the docstring, through pydantic. The decorated name
stays callable as before, so a tool is tested like any function.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model

from perdure.agents.approval import ApprovalRule
from perdure.runs.errors import ConfigurationError
from perdure.runs.ids import is_valid_id
from perdure.runs.policy import Effect, ToolPolicy

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS: dict[Effect, int] = {"read": 3, "keyed": 3, "unsafe": 1}
"""Attempts when a worker dies under a tool; a tool's own error is never retried."""

NAME_LENGTH = 64
"""Longest function name that the Chat Completions API accepts."""


class Tool(Generic[P, R]):
    """A function, its schema and how it may be run.

    Attributes:
        name: As the model and the Temporal UI know it.
        description: First paragraph of the docstring.
        arguments: pydantic model of the parameters.
        schema: The tool as the `tools` entry of a Chat Completions request.
        policy: Effect, timeout and attempts.
        approval: Which calls wait for a person's yes.
    """

    def __init__(
        self,
        function: Callable[P, R],
        name: str,
        policy: ToolPolicy,
        approval: ApprovalRule | None = None,
    ) -> None:
        if not is_valid_id(name) or len(name) > NAME_LENGTH or set(name) & set(".:@"):
            raise ConfigurationError(
                f"A tool can't be named {name!r}.",
                hint=f"Use 1 to {NAME_LENGTH} letters, digits, _ or -.",
            )
        self.function = function
        self.name = name
        self.policy = policy
        self.approval = approval
        documented = docstring_parser.parse(inspect.getdoc(function) or "")
        self.description = documented.short_description or ""
        if documented.long_description:
            self.description += "\n" + documented.long_description
        # Both at once: what no schema can be made of is to be told where it is declared.
        try:
            self.arguments = _arguments_model(function, name, documented)
            self.schema = self._made_schema()
        except (PydanticUserError, NameError) as exc:
            raise ConfigurationError(f"Tool {name!r} can't be described: {exc}") from exc

    def describe(self, description: str) -> None:
        """Give it another description than its function's."""
        self.description = description
        self.schema = self._made_schema()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without Temporal."""
        return self.function(*args, **kwargs)

    @property
    def is_async(self) -> bool:
        """True when the function is a coroutine function."""
        return inspect.iscoroutinefunction(self.function)

    def _made_schema(self) -> dict[str, Any]:
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        for declared in parameters.get("properties", {}).values():
            declared.pop("title", None)
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def keyword_arguments(self, text: str) -> dict[str, Any]:
        """Read a JSON object of arguments into the values the function takes.

        Raises:
            pydantic.ValidationError: When they do not fit.
        """
        checked = self.arguments.model_validate_json(text)
        return {name: getattr(checked, name) for name in type(checked).model_fields}


AnyTool = Tool[Any, Any]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    approval: ApprovalRule | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    approval: ApprovalRule | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a typed function, sync or async.

    Args:
        function: The function, when used without parentheses.
        name: For the model; the function's name by default.
        effect: What running it twice would do. `read`: nothing, it may be run again when a
            worker dies. `unsafe`, the default: harm, it is run at most once.
        timeout_s: Seconds that one execution may take; the agent's, else 60, when not given.
        approval: Which calls wait for a person's yes: True for all, or a function of the call that
            returns True or the reason. The agent's own rule holds as well.

    Raises:
        ConfigurationError: When the name or a parameter can't be given to a model.
    """
    policy = ToolPolicy(effect=effect, timeout_s=timeout_s, max_attempts=ATTEMPTS[effect])

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, name or function.__name__, policy, approval)

    return decorate if function is None else decorate(function)


def _arguments_model(
    function: Callable[..., Any], name: str, documented: docstring_parser.Docstring
) -> type[BaseModel]:
    described = {param.arg_name: param.description for param in documented.params}
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigurationError(f"Tool {name!r} can't take *{parameter.name}.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigurationError(
                f"Parameter {parameter.name!r} of tool {name!r} can't be given by name.",
                hint="Remove the `/`; a model gives all arguments by name.",
            )
        if parameter.name not in hints:
            raise ConfigurationError(
                f"Parameter {parameter.name!r} of tool {name!r} has no type.",
                hint="Annotate it; the model's schema is made from the types.",
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        described_as = described.get(parameter.name)
        field = Field(default, description=described_as) if described_as else Field(default)
        fields[parameter.name] = (hints[parameter.name], field)
    model: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return model


async def result_of(value: Any | Awaitable[Any]) -> Any:
    """Return what a tool's function returned, awaited when it must be."""
    return await value if inspect.isawaitable(value) else value
