"""The messages a model reads and writes, and their exact form on the wire.

The system message is not among them: the worker puts the agent's instructions in front of
every request. `wire` is the strict writer: whatever was tolerated on reading, what leaves us
is what the Chat Completions reference describes.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from perdure.runs.files import FileRef
from perdure.runs.frozen import Frozen
from perdure.runs.policy import is_nothing
from pydantic import Field


class UserMessage(Frozen):
    """Something a person, or the caller, said."""

    role: Literal["user"] = "user"
    content: str
    files: tuple[FileRef, ...] = Field((), exclude_if=is_nothing)


class MessageCall(Frozen):
    """A tool call as it stands in an assistant message."""

    id: str
    name: str
    arguments: str
    """The text of a JSON object."""


class AssistantMessage(Frozen):
    """What the model answered: text, tool calls or both."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: tuple[MessageCall, ...] = ()
    extra: dict[str, str] = Field(default_factory=dict)
    """Fields that the reference does not have; only models that want them back get them."""


class ToolMessage(Frozen):
    """The result of one tool call."""

    role: Literal["tool"] = "tool"
    tool_call_id: str
    content: str


class MessageReference(Frozen):
    """Stands for a message that the history holds already, as the result of a tool's activity."""

    role: Literal["reference"] = "reference"
    digest: str
    """SHA-256 over the message's wire form, in hexadecimal."""


Message = Annotated[UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def wire(message: UserMessage | AssistantMessage | ToolMessage) -> bytes:
    """Return a message as canonical UTF-8 JSON in Chat Completions form.

    The same message always gives the same bytes: the transcript digest is made of them.
    An empty `tool_calls` list never leaves us (providers refuse it), and `content` is null
    only beside tool calls. Extra fields and files stand first and apart: `outgoing` knows who
    gets the one, `shown_files` what becomes of the other.
    """
    body: dict[str, Any] = {"role": message.role}
    match message:
        case UserMessage():
            if message.files:
                body["files"] = [file.identity for file in message.files]
            body["content"] = message.content
        case ToolMessage():
            body["tool_call_id"] = message.tool_call_id
            body["content"] = message.content
        case AssistantMessage():
            if message.extra:
                body["extra"] = message.extra
            body["content"] = message.content or (None if message.tool_calls else "")
            if message.tool_calls:
                body["tool_calls"] = [_wire_call(call) for call in message.tool_calls]
    return canonical_json(body)


REFER_FROM_BYTES = 256
"""Smaller results are repeated: a reference takes about a hundred bytes itself."""

SentMessage = Annotated[
    UserMessage | AssistantMessage | ToolMessage | MessageReference, Field(discriminator="role")
]


def digest(wired: bytes) -> str:
    """Return the name of a message by its content."""
    return hashlib.sha256(wired).hexdigest()


def sent(message: UserMessage | AssistantMessage | ToolMessage) -> SentMessage:
    """Return a message as it is handed to a model activity: large results by reference."""
    if not isinstance(message, ToolMessage) or len(message.content) < REFER_FROM_BYTES:
        return message
    return MessageReference(digest=digest(wire(message)))


def _wire_call(call: MessageCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def canonical_json(value: Any) -> bytes:
    """Return strict, compact UTF-8 JSON.

    Raises:
        ValueError: For NaN or an infinity, which are not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


def without_lone_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which no UTF-8 encoder accepts, by U+FFFD.

    Halves that stand side by side, as a stream cut in two may bring them, become the one
    character that they mean.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
