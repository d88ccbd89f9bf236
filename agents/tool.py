"""A tool: a typed Python function that a model may call.

Its schema comes from the signature and the docstring, through pydantic. The decorated name
stays callable as before, so a tool is tested like any function.
"""

import inspect
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from pydantic import PydanticUserError

from perdure.agents.approval import ApprovalRule
from perdure.agents.arguments import Parameters, documented, underlying
from perdure.agents.context import ToolContext
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
        description: The docstring, without its sections.
        schema: The tool as the `tools` entry of a Chat Completions request.
        policy: Effect, timeout, attempts and task queue.
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
        about = documented(function)
        self.description = about.short_description or ""
        if about.long_description:
            self.description += "\n" + about.long_description
        # Both at once: what no schema can be made of is to be told where it is declared.
        try:
            self._parameters = Parameters.of(function, name)
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
        return inspect.iscoroutinefunction(underlying(self.function))

    def _made_schema(self) -> dict[str, Any]:
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self._parameters.schema(),
        }
        return {"type": "function", "function": function}

    def keyword_arguments(self, text: str, context: ToolContext | None = None) -> dict[str, Any]:
        """Read a JSON object of arguments into the values the function takes.

        Args:
            text: What the model gave.
            context: For the parameters that want it; they are left out without one.

        Raises:
            pydantic.ValidationError: When they do not fit.
        """
        checked = self._parameters.model.model_validate_json(text)
        read = {name: getattr(checked, field) for field, name in self._parameters.names.items()}
        if context is not None:
            read |= dict.fromkeys(self._parameters.context, context)
        return read


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
    task_queue: str | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    approval: ApprovalRule | None = None,
    task_queue: str | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a typed function, sync or async.

    Args:
        function: The function, when used without parentheses.
        name: For the model; the function's name by default.
        effect: What running it twice would do. `read`: nothing, it is run again when a worker
            dies, and when a Run is resumed. `keyed`: nothing, as long as it hands the same
            `ToolContext.idempotency_key` to whatever has the effect; it is run again as well.
            `unsafe`, the default: harm, it is run at most once.
        timeout_s: Seconds that one execution may take; the agent's, else 60, when not given. What
            may be run again is, up to three times in all; then the model is told.
        approval: Which calls wait for a person's yes: True for all, or a function of the call that
            returns True or the reason. The agent's own rule holds as well.
        task_queue: Temporal task queue whose workers execute it (`perdure worker --tool-queue`):
            for what needs a graphics card, or stands in another network. The Run's own, when not
            given. When no worker takes a call in ten minutes, the model is told.

    Raises:
        ConfigurationError: When the name or a parameter can't be given to a model, or there can't
            be such a task queue.
    """
    policy = ToolPolicy(
        effect=effect,
        timeout_s=timeout_s,
        max_attempts=ATTEMPTS[effect],
        task_queue=checked_task_queue(task_queue),
    )

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, name or _name_of(function), policy, approval)

    return decorate if function is None else decorate(function)


def checked_task_queue(name: str | None) -> str | None:
    """Return the name of a task queue.

    Raises:
        ConfigurationError: When it can't have that name.
    """
    if name is not None and not is_valid_id(name):
        raise ConfigurationError(
            f"A task queue can't be named {name!r}.",
            hint="Use 1 to 128 letters, digits and . _ : @ -, a letter or digit first.",
        )
    return name


def _name_of(function: Callable[..., Any]) -> str:
    named = underlying(function)
    if named.__name__ == "__call__":
        raise ConfigurationError(
            f"A tool made of {type(function).__name__!r} needs a name.", hint="Give it: name=…"
        )
    return named.__name__
