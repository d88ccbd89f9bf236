"""The request for a model call, in wire form: what the provider gets to read.

Earlier messages go out as the bytes that they are kept in; nothing transforms them again.
"""

import json
from collections.abc import Sequence
from typing import Any

from perdure.activities.endpoints import Endpoint
from perdure.activities.outgoing import outgoing
from perdure.activities.structured import wanted_output
from perdure.activities.toolbox import Tools
from perdure.agents.agent import Agent
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ModelRequest
from perdure.runs.limits import MAX_AGENT_DEPTH
from perdure.runs.messages import canonical_json

CONCLUDE = (
    "The limit of this task is reached ({limit}) You can't use tools any more. "
    "Conclude now, with what you have."
)
"""Said by us, after the last message, when a model is to conclude; it is not kept."""
COMPACT = """\
You keep the notes of an assistant whose conversation has become too long. Sum up the \
conversation below so that the assistant can go on without it: the task, what was decided, what \
was done and found out (names, numbers, identifiers and quotations exactly), what failed, and \
what is still to do. Write nothing else."""
SHOWN_CHARS = 4_000
"""Of one message, in a conversation that is to be summed up."""


def request_body(
    agent: Agent,
    endpoint: Endpoint,
    messages: Sequence[bytes],
    request: ModelRequest,
    offered: Tools,
) -> bytes:
    """Return the body of the request.

    Args:
        agent: Whose turn it is.
        endpoint: The model, and where it is asked for.
        messages: The transcript, each message in wire form.
        request: What the call is for.
        offered: What the model may call.
    """
    head: dict[str, Any] = {"model": endpoint.model, "stream": True}
    if agent.profile.stream_usage:
        head["stream_options"] = {"include_usage": True}
    if agent.temperature is not None:
        head["temperature"] = agent.temperature
    if agent.max_output_tokens is not None:
        head["max_completion_tokens"] = agent.max_output_tokens
    tools = [tool for tool in offered.tools if _is_offered(tool, request)]
    schemas = [tool.schema for tool in tools] if request.purpose == "turn" else []
    output = wanted_output(agent, request, [tool.name for tool in offered.tools])
    system = agent.instructions
    if output is not None:
        head |= output.head
        schemas += output.tools
        system = "\n\n".join(filter(None, (system, output.instructions)))
    if schemas:
        head["tools"] = schemas
    opened = canonical_json(head)[:-1]
    told = _messages(agent, endpoint, system, messages, request)
    return opened + b',"messages":[' + b",".join(told) + b"]}"


def _is_offered(tool: AnyTool, request: ModelRequest) -> bool:
    return tool.policy.kind != "agent" or request.depth < MAX_AGENT_DEPTH


def _messages(
    agent: Agent,
    endpoint: Endpoint,
    system: str,
    messages: Sequence[bytes],
    request: ModelRequest,
) -> list[bytes]:
    if request.purpose == "compact":
        told = "\n\n".join(_as_text(wired) for wired in messages[: request.summarise])
        return [_said("system", COMPACT), _said("user", told)]
    sent = [_said("system", system)] if system else []
    provider, is_home = endpoint.provider, endpoint.at_home
    sent.extend(outgoing(each, agent.profile, provider, at_home=is_home) for each in messages)
    if request.purpose == "conclude":
        why = request.limit.message if request.limit is not None else ""
        sent.append(_said("user", CONCLUDE.format(limit=why)))
    return sent


def _said(role: str, content: str) -> bytes:
    return canonical_json({"role": role, "content": content})


def _as_text(wired: bytes) -> str:
    """Return a message for reading: no provider checks pairs of call and result in a text."""
    message = json.loads(wired)
    lines = [_shortened(message.get("content") or "")]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        lines.append(f"→ {function['name']}({_shortened(function['arguments'])})")
    return f"{message['role']}: " + "\n".join(line for line in lines if line)


def _shortened(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return text
    half = SHOWN_CHARS // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters left out …] {text[-half:]}"
