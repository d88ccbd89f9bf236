"""An agent: a model, its instructions, its tools and how much a Run of it may use."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import Limits, Timeouts


@dataclass(frozen=True)
class Agent:
    """What a Run executes. Declared in a module of yours that the worker is started with.

    Raises:
        ConfigurationError: When the name is unusable, or two tools share one.
    """

    name: str
    """As callers name it."""
    instructions: str = ""
    """The system message of every request; empty sends none."""
    tools: Sequence[AnyTool] = ()
    model: str | None = None
    """As the provider names it; the worker's default model when none is given."""
    temperature: float | None = None
    """Passed on to the provider; its own default when none is given."""
    max_output_tokens: int | None = None
    """Longest answer of one model call, in tokens; the provider's limit when none is given."""
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        if not is_valid_id(self.name):
            raise ConfigurationError(
                f"An agent can't be named {self.name!r}.",
                hint="Use letters, digits and . _ : @ - only.",
            )
        seen: set[str] = set()
        for each in self.tools:
            if each.name in seen:
                raise ConfigurationError(f"Agent {self.name!r} has two tools named {each.name!r}.")
            seen.add(each.name)

    def tool(self, name: str) -> AnyTool | None:
        """Return the tool of that name, if the agent has it."""
        return next((each for each in self.tools if each.name == name), None)
