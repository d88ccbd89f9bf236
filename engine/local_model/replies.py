"""Replies as the objects of OpenAI's Chat Completions API. Pure.

Format: https://platform.openai.com/docs/api-reference/chat
"""

import json
from dataclasses import dataclass

from perdure.engine.local_model.adapter import Reply
from perdure.engine.local_model.messages import Call, JsonObject, RequestRefused


@dataclass(frozen=True)
class Usage:
    """Tokens as the model counted them; of all tries, if a reply took more than one."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt's tokens, those that the model still had in its cache."""
    completion_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of two tries."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def as_json(self) -> JsonObject:
        """Return the object `usage`."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


@dataclass(frozen=True)
class Head:
    """What all parts of one completion have in common."""

    id: str
    created: int
    """Unix time in seconds."""
    model: str

    def completion(
        self, reply: Reply, call_id: str, finish_reason: str, usage: Usage
    ) -> JsonObject:
        """Return a whole `chat.completion`."""
        message: JsonObject = {"role": "assistant", "content": reply.content, "refusal": None}
        if reply.call:
            message["content"] = None
            message["tool_calls"] = [_call(reply.call, call_id)]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return self._object("chat.completion", [choice]) | {"usage": usage.as_json()}

    def role(self) -> JsonObject:
        """Return the first chunk."""
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, content: str) -> JsonObject:
        """Return a chunk of text."""
        return self._chunk({"content": content})

    def call(self, reply: Reply, call_id: str) -> list[JsonObject]:
        """Return the chunks of a call: its name, then its arguments. None if there is no call."""
        if not reply.call:
            return []
        whole = _call(reply.call, call_id)
        arguments = json.dumps(reply.call.arguments, ensure_ascii=False)
        opening = {**whole, "index": 0, "function": {"name": reply.call.name, "arguments": ""}}
        return [
            self._chunk({"tool_calls": [opening]}),
            self._chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}),
        ]

    def finish(self, reason: str) -> JsonObject:
        """Return the chunk that says why the reply ends."""
        return self._chunk({}, reason)

    def usage(self, usage: Usage) -> JsonObject:
        """Return the last chunk, sent only if the request asks for it."""
        return self._object("chat.completion.chunk", []) | {"usage": usage.as_json()}

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._object("chat.completion.chunk", [choice])

    def _object(self, kind: str, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def _call(call: Call, call_id: str) -> JsonObject:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def error_json(error: RequestRefused) -> JsonObject:
    """Return the error object of a refused request."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.param,
            "code": error.code,
        }
    }
