"""Tool calling for a model too small to keep to a format by itself. Pure: no I/O.

A model of 0.5B names the right tool but not in the form that the llama.cpp server recognises,
which then reports the call as plain text. So a request with tools becomes one with a JSON
schema (a call of one of the tools, or an answer) that the server enforces token by token, and
the reply becomes `tool_calls` or `content` again. This belongs to the local model alone:
a provider that reports tool calls itself is never second-guessed.

Its limits, on purpose:

- A reply holds one call at most; `parallel_tool_calls` has no effect.
- With tools, `stop` has no effect: it would apply to the JSON around an answer.
- A call that already has its result is not made a second time with the same arguments: the
  model is asked again for an answer alone (`repeats_a_call`, `answer_only`). A JSON schema can't
  say "anything but this"; the small model, left alone, would sometimes repeat itself for ever.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from perdure.engine.local_model.messages import (
    Call,
    JsonObject,
    RequestRefused,
    ToolSpec,
    read_conversation,
)
from perdure.engine.local_model.schema import ANSWER, TEXT, reply_schema

MAX_TOKENS = 256
"""Tokens of a reply when the request sets no limit. A small model that starts to repeat itself
would otherwise fill the context; 256 tokens take 10 s on two idle cores."""

PASSED_ON = (
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
"""Parameters of the Chat Completions API that mean the same to llama.cpp."""
REFUSED = ("logprobs", "top_logprobs", "functions", "function_call", "audio", "modalities")
"""Parameters that would change the reply's form; ignoring them would be a silent lie."""


@dataclass(frozen=True)
class Adapted:
    """A request for the llama.cpp server, and what is needed to read its reply."""

    body: JsonObject
    constrained: bool
    """Whether the reply is JSON by our schema, to be read by `read_reply`."""
    answer: JsonObject
    """Schema of an answer: text, unless the request has a `response_format`."""
    made: frozenset[str]
    """Keys of the calls that were made since the last question."""
    may_answer: bool
    """Whether an answer is allowed instead of a call."""

    @property
    def answers_in_text(self) -> bool:
        """Whether an answer can be passed on while it is written, by `AnswerText`."""
        return self.answer == TEXT


@dataclass(frozen=True)
class Reply:
    """What the model replied: text, or one call."""

    content: str
    call: Call | None = None


def adapt(request: Mapping[str, object]) -> Adapted:
    """Turn a Chat Completions request into one for the llama.cpp server.

    Args:
        request: The request's JSON. What is unknown is ignored, as by OpenAI's older models.

    Returns:
        The request to send, without `stream`. Temperature 0 unless the request sets one.

    Raises:
        RequestRefused: The request is not valid, or asks for what this model can't do.
    """
    for name in REFUSED:
        if request.get(name) not in (None, False, []):
            raise RequestRefused(f"This model does not support {name!r}.", param=name)
    if request.get("n") not in (None, 1):
        raise RequestRefused("This model gives one reply; 'n' must be 1.", param="n")
    tools, must_call = _offered(request)
    conversation = read_conversation(request.get("messages"), tools)
    body: JsonObject = {"messages": conversation.messages, "temperature": 0.0}
    body |= {name: request[name] for name in PASSED_ON if request.get(name) is not None}
    body["max_tokens"] = _max_tokens(request)
    # Calls in the conversation make the model write in their form, with or without tools.
    constrained = bool(tools) or conversation.has_calls
    answer = _answer_schema(request.get("response_format"))
    if constrained:
        body["response_format"] = _format(reply_schema(tools, None if must_call else answer))
    else:
        body |= {
            name: request[name]
            for name in ("stop", "response_format")
            if request.get(name) is not None
        }
    return Adapted(body, constrained, answer, conversation.made, not must_call)


def repeats_a_call(adapted: Adapted, reply: Reply) -> bool:
    """Say whether a reply makes a call again whose result the model has just been given."""
    return adapted.may_answer and reply.call is not None and reply.call.key() in adapted.made


def answer_only(adapted: Adapted) -> Adapted:
    """Return the same request with an answer as the only possible reply."""
    response_format = _format(reply_schema([], adapted.answer))
    return replace(adapted, body={**adapted.body, "response_format": response_format})


def read_reply(adapted: Adapted, text: str) -> Reply:
    """Read the model's text.

    Args:
        adapted: The request.
        text: All of the reply. If it was cut off by the token limit, an answer keeps what there
            is of it and a call is lost, since half a call must not be made.

    Raises:
        ValueError: The text is whole but not by the schema.
    """
    if not adapted.constrained:
        return Reply(text)
    try:
        reply = json.loads(text)
    except ValueError:
        return Reply(AnswerText().feed(text) if adapted.answers_in_text else "")
    if isinstance(reply, dict) and ANSWER in reply:
        answer = reply[ANSWER]
        return Reply(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
    if isinstance(reply, dict) and isinstance(reply.get("arguments"), dict):
        return Reply("", Call(str(reply.get("name")), reply["arguments"]))
    raise ValueError(f"The model's reply is neither a call nor an answer: {text[:200]!r}")


class AnswerText:
    """Decodes the text of an answer while its JSON arrives."""

    _START = re.compile(rf'\s*\{{\s*"{ANSWER}"\s*:\s*"')
    _WHOLE = re.compile(
        r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB]..\\u....|\\u(?![dD][89abAB])....)*', re.DOTALL
    )
    """Characters and complete escapes, up to the closing quote or an escape cut in two."""

    def __init__(self) -> None:
        self._pending = ""
        self._started = False

    def feed(self, text: str) -> str:
        """Return the part of the answer that `text` completes; empty if it is no answer."""
        self._pending += text
        if not self._started:
            start = self._START.match(self._pending)
            if start is None:
                return ""
            self._started = True
            self._pending = self._pending[start.end() :]
        whole = self._WHOLE.match(self._pending)
        ready = whole.group() if whole else ""
        self._pending = self._pending[len(ready) :]
        # Not strict: the grammar lets the model write a line feed as it is.
        return str(json.loads(f'"{ready}"', strict=False))


def _offered(request: Mapping[str, object]) -> tuple[list[ToolSpec], bool]:
    """Return the tools that may be called, and whether one has to be."""
    tools = _read_tools(request.get("tools"))
    choice = request.get("tool_choice")
    match choice:
        case "none":
            return [], False
        case None | "auto":
            return tools, False
        case "required":
            wanted = tools
        case {"type": "function", "function": {"name": name}}:
            wanted = [tool for tool in tools if tool.name == name]
        case _:
            raise RequestRefused(f"'tool_choice' can't be {choice!r}.", param="tool_choice")
    if not wanted:
        raise RequestRefused("'tool_choice' asks for a tool that is not in 'tools'.", param="tools")
    return wanted, True


def _read_tools(tools: object) -> list[ToolSpec]:
    if tools is None:
        return []
    if not isinstance(tools, list):
        raise RequestRefused("'tools' must be a list.", param="tools")
    read = [_read_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    if len({tool.name for tool in read}) < len(read):
        raise RequestRefused("Two tools have the same name.", param="tools")
    return read


def _read_tool(tool: object, where: str) -> ToolSpec:
    match tool:
        case {"type": "function", "function": {"name": str(name), **rest}} if re.fullmatch(
            r"[a-zA-Z0-9_-]+", name
        ):
            parameters = rest.get("parameters") or {}
            if isinstance(parameters, dict):
                return ToolSpec(name, str(rest.get("description") or ""), parameters)
    raise RequestRefused("A tool must be a function with a name and a schema.", param=where)


def _max_tokens(request: Mapping[str, object]) -> int:
    limit = request.get("max_completion_tokens") or request.get("max_tokens") or MAX_TOKENS
    if not isinstance(limit, int) or limit < 1:
        raise RequestRefused("The token limit must be a whole number from 1.", param="max_tokens")
    return limit


def _answer_schema(response_format: object) -> JsonObject:
    match response_format:
        case None | {"type": "text"}:
            return TEXT
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return cast("JsonObject", schema)
    raise RequestRefused("'response_format' is not understood.", param="response_format")


def _format(schema: JsonObject) -> JsonObject:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
