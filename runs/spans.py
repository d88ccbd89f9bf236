"""What the spans of a Trace say: each attribute's name, on which spans it is, and what it means.

Names are those of OpenTelemetry's semantic conventions (a test holds them against the installed
ones), or begin with `perdure.`. The table of `docs/traces.md` is made of `ATTRIBUTES`.
"""

from typing import NamedTuple

TRACER = "perdure"
"""Instrumentation scope of our spans."""
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
"""Operations, as `gen_ai.operation.name` has them; a span's name begins with its operation."""

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
ERROR = "error.type"
SERVER = "server.address"
PORT = "server.port"
RUN = "perdure.run.id"
STATUS = "perdure.run.status"
PARENT = "perdure.run.parent_id"
FORKED = "perdure.run.forked_from"
RESUMED = "perdure.run.resumed"
STEP = "perdure.step"
TURN = "perdure.turn"
ATTEMPT = "perdure.attempt"
PURPOSE = "perdure.purpose"
COST = "perdure.cost"


class Meaning(NamedTuple):
    """What is known of an attribute."""

    spans: tuple[str, ...]
    text: str
    is_content: bool = False
    """Only there when content is asked for."""


_ALL = (INVOKE_AGENT, CHAT, EXECUTE_TOOL)
_STEPS = (CHAT, EXECUTE_TOOL)
_USES = (INVOKE_AGENT, CHAT)

ATTRIBUTES: dict[str, Meaning] = {
    OPERATION: Meaning(_ALL, "which of the three it is"),
    AGENT: Meaning(_ALL, "the agent; of a judge's call, the judge"),
    CONVERSATION: Meaning(_ALL, "the Session, where the Run is in one"),
    RUN: Meaning(_ALL, "the Run"),
    ERROR: Meaning(_ALL, "the code of what went wrong (docs/errors.md)"),
    STATUS: Meaning((INVOKE_AGENT,), "how the Run ended"),
    PARENT: Meaning((INVOKE_AGENT,), "the Run that called this one"),
    FORKED: Meaning((INVOKE_AGENT,), "the Run that it was forked from"),
    RESUMED: Meaning((INVOKE_AGENT,), "true when it had ended before and was resumed"),
    COST: Meaning((INVOKE_AGENT,), "USD, of the model calls whose price is known"),
    STEP: Meaning(_STEPS, "number of the Step"),
    TURN: Meaning(_ALL, "its turn; of a Run, how many it had"),
    ATTEMPT: Meaning(_STEPS, "which attempt at the Step: each has a span"),
    PURPOSE: Meaning((CHAT,), "`turn`, `conclude`, `compact` or `judge`"),
    PROVIDER: Meaning((CHAT,), "by the provider's address; `openai` where that is not known"),
    SERVER: Meaning((CHAT,), "host of the provider"),
    PORT: Meaning((CHAT,), "its port"),
    REQUEST_MODEL: Meaning(_USES, "the model asked; of a Run, where it is not its agent's own"),
    REQUEST_STREAM: Meaning((CHAT,), "always true"),
    RESPONSE_MODEL: Meaning((CHAT,), "the model that says it answered"),
    RESPONSE_ID: Meaning((CHAT,), "the provider's id of the answer"),
    FINISH_REASONS: Meaning((CHAT,), "as the provider gave it"),
    INPUT_TOKENS: Meaning(_USES, "as reported; of a Run, all of its calls so far"),
    CACHED_TOKENS: Meaning(_USES, "those of them that were cached"),
    OUTPUT_TOKENS: Meaning(_USES, "as reported; of a Run, all of its calls so far"),
    REASONING_TOKENS: Meaning(_USES, "those of them that were thoughts"),
    TOOL: Meaning((EXECUTE_TOOL,), "the tool"),
    TOOL_TYPE: Meaning((EXECUTE_TOOL,), "`function` of Python, `extension` of an MCP server"),
    CALL_ID: Meaning((EXECUTE_TOOL,), "the model's id of the call"),
    INPUT_MESSAGES: Meaning((CHAT,), "what the model was sent, the latest of it", True),
    OUTPUT_MESSAGES: Meaning((CHAT,), "what it answered", True),
    ARGUMENTS: Meaning((EXECUTE_TOOL,), "what the tool was called with", True),
    RESULT: Meaning((EXECUTE_TOOL,), "what the model is told of it", True),
}
