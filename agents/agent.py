"""An agent: a model, its instructions, its tools and how much a Run of it may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.agents.approval import ApprovalRule
from perdure.agents.checks import ArgumentCheck, InputCheck, Judge, OutputCheck, name_of
from perdure.agents.delegation import agent_tool, handoff_tool
from perdure.agents.mcp import McpServer
from perdure.agents.output import OutputShape, shape_of
from perdure.agents.profile import ModelProfile
from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError, ErrorCode
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.retries import RetryRule


@dataclass(frozen=True)
class Agent:
    """What a Run executes. Declared in a module of yours that the worker is started with.

    Raises:
        ConfigurationError: When the name, a check or the output's type is unusable, or two tools
            or MCP servers share a name.
    """

    name: str
    """As callers name it."""
    instructions: str = ""
    """The system message of every request; empty sends none."""
    description: str = ""
    """What it is good for; read by agents that may call it."""
    tools: Sequence[AnyTool] = ()
    """What it may do; other agents among them: `other.as_tool()`."""
    mcp_servers: Sequence[McpServer] = ()
    """Whose tools it has besides; each is called `<server>__<tool>`."""
    handoffs: Sequence[str] = ()
    """Names of the agents that it may let go on with the conversation in its place."""
    approval: ApprovalRule | None = None
    """Which tool calls wait for a person's yes, besides those whose tool says so: `"unsafe"` for
    all that must not run twice, or a function of the call."""
    model: str | None = None
    """As the provider names it, or an alias (docs/models.md); the worker's default model when none
    is given."""
    temperature: float | None = None
    """Passed on to the provider; its own default when none is given."""
    max_output_tokens: int | None = None
    """Longest answer of one model call, in tokens; the provider's limit when none is given."""
    context_window: int | None = None
    """Tokens that the model can read; known by itself for the models of `genai-prices`. Older
    messages are summed up before it is full."""
    fallback_models: Sequence[str] = ()
    """Models to go on with, in this order, when one's retries are spent; those of its alias when
    none are given."""
    retries: Mapping[ErrorCode, RetryRule] = field(default_factory=dict)
    """How errors of the model are retried, over `perdure.runs.retries.RETRIES`."""
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    on_limit: OnLimit | None = None
    """What happens when a limit is reached; `stop` by default."""
    on_unknown: OnUnknown | None = None
    """What happens when nobody knows whether a tool had its effect; `tell` by default."""
    profile: ModelProfile = field(default_factory=ModelProfile)
    """What sets the model apart from the Chat Completions reference."""
    output_type: Any = None
    """What the output has to be: a pydantic model, or another type that pydantic knows, or a JSON
    schema as a dict. Text when none is given."""
    input_checks: Sequence[InputCheck] = ()
    """Look at what is said to a Run, its input and later messages, before the model does."""
    argument_checks: Sequence[ArgumentCheck] = ()
    """Look at each tool call: when the model asks for it, and once more where it is executed."""
    output_checks: Sequence[OutputCheck] = ()
    """Look at a final answer before the Run ends with it; nothing of it is shown before."""
    output: OutputShape | None = field(init=False, default=None, repr=False, compare=False)
    """Made of `output_type`."""

    def __post_init__(self) -> None:
        if not is_valid_id(self.name):
            raise ConfigurationError(
                f"An agent can't be named {self.name!r}.",
                hint="Use letters, digits and . _ : @ - only.",
            )
        handing = [handoff_tool(each) for each in self.handoffs]
        object.__setattr__(self, "tools", (*self.tools, *handing))
        seen: set[str] = set()
        for each in self.tools:
            if each.name in seen:
                raise ConfigurationError(f"Agent {self.name!r} has two tools named {each.name!r}.")
            seen.add(each.name)
        names = [server.name for server in self.mcp_servers]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"Agent {self.name!r} has two MCP servers named {name!r}.")
        _refuse_no_checks(self)
        if self.output_type is not None:
            object.__setattr__(self, "output", shape_of(self.output_type))

    def as_tool(
        self,
        name: str | None = None,
        *,
        approval: ApprovalRule | None = None,
        timeout_s: float | None = None,
    ) -> AnyTool:
        """Return a tool for other agents that calls this one: each call is a Run of its own.

        Its input is one text; it sees nothing of the other's conversation. What it uses counts
        for the caller as well, it is stopped with it, and may use no more than that has left.

        Args:
            name: For the model; made of the agent's name by default.
            approval: Which calls wait for a person's yes.
            timeout_s: Seconds that the whole Run may take; unlimited by default.
        """
        return agent_tool(self.name, name, self.description, approval=approval, timeout_s=timeout_s)

    def tool(self, name: str) -> AnyTool | None:
        """Return the tool of that name, if the agent has it."""
        return next((each for each in self.tools if each.name == name), None)


def _refuse_no_checks(agent: Agent) -> None:
    for check in (*agent.input_checks, *agent.argument_checks, *agent.output_checks):
        if not callable(check) and not isinstance(check, Judge):
            raise ConfigurationError(f"Agent {agent.name!r}: {check!r} is no check.")
    for check in agent.input_checks:
        if isinstance(check, Judge) and check.otherwise == "retry":
            raise ConfigurationError(
                f"Agent {agent.name!r}: nobody answers again in place of an input.",
                hint='Let the judge reject it: judged_by(…, otherwise="reject").',
            )
    for judge in agent.argument_checks:
        if isinstance(judge, Judge):
            raise ConfigurationError(
                f"Agent {agent.name!r}: the judge {name_of(judge)!r} can't check arguments.",
                hint="They are checked again where tools are executed; use a function.",
            )
