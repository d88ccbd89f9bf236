"""llama.cpp in this process, by package `xllamacpp`, and text from it.

Its own HTTP server listens on 127.0.0.1 at a port of its choice and with a key that only this
process knows: closing a connection to it is the one way to stop a generation under way.
"""

import json
import os
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2

from perdure.engine.local_model.messages import JsonObject, RequestRefused
from perdure.engine.local_model.replies import Usage
from perdure.engine.local_model.weights import WAY_OUT, LocalModelUnavailable

CONTEXT_TOKENS = 8192
"""Prompt and reply together. llama.cpp would take 32k, and the memory for it."""
MAX_THREADS = 2
"""The machine has other work to do, first of all the agent that waits for the reply."""
ERRORS_ONLY = 1
"""llama.cpp's log level."""
OVERFLOW = "exceed_context_size_error"
"""How llama.cpp calls a prompt that does not fit."""


@dataclass(frozen=True)
class Text:
    """A piece of the reply."""

    text: str


@dataclass(frozen=True)
class End:
    """The reply is complete."""

    finish_reason: str
    """`stop`, or `length` when the token limit or the context's end was reached."""
    usage: Usage


class Backend:
    """A loaded model. Takes about 2 s and 700 MB to make; one reply at a time, others wait.

    Args:
        weights: The GGUF file.
        cache_prompt: Whether what two prompts have in common is computed once. It saves most
            of a turn, but what is computed in other portions comes out a little different:
            measured at temperature 0, one question of three got another reply after others
            had been asked. Without it, all three got the same.

    Raises:
        LocalModelUnavailable: llama.cpp is not installed or can't load the file.
    """

    def __init__(self, weights: Path, *, cache_prompt: bool) -> None:
        self._key = secrets.token_urlsafe()
        self._cache_prompt = cache_prompt
        # Kept: the model is unloaded when this object is collected.
        self._server = _load(weights, self._key)
        self._client = httpx2.AsyncClient(
            base_url=self._server.listening_address,
            headers={"Authorization": f"Bearer {self._key}"},
            # A long prompt takes a minute before the first token. Whoever waits ends the wait.
            timeout=httpx2.Timeout(None, connect=10.0),
            # llama.cpp closes an idle connection after 5 s, maybe just when it is used again.
            limits=httpx2.Limits(max_keepalive_connections=0),
            trust_env=False,
        )

    async def healthy(self) -> bool:
        """Say whether the model answers."""
        try:
            return (await self._client.get("/health")).is_success
        except httpx2.TransportError:
            return False

    async def generate(self, body: JsonObject) -> AsyncGenerator[Text | End]:
        """Yield a reply piece by piece, `End` last.

        Args:
            body: A chat request for llama.cpp, without `stream`.

        Raises:
            RequestRefused: llama.cpp refuses the request, or fails.

        Cancellation: stops the generation. Close the iterator if you leave it early.
        """
        asked = {
            **body,
            "cache_prompt": self._cache_prompt,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        reason, usage = "", Usage()
        try:
            async with self._client.stream("POST", "/v1/chat/completions", json=asked) as response:
                if response.is_error:
                    raise _refusal(await response.aread())
                async for line in response.aiter_lines():
                    if not line.startswith("data: {"):
                        continue  # pings, blank lines, [DONE]
                    chunk = json.loads(line.removeprefix("data: "))
                    if "error" in chunk:
                        raise _refusal(line.removeprefix("data: ").encode())
                    usage = _usage(chunk) or usage
                    for choice in chunk.get("choices", []):
                        reason = choice.get("finish_reason") or reason
                        if text := choice.get("delta", {}).get("content"):
                            yield Text(text)
        except httpx2.TransportError as error:
            raise RequestRefused(f"The local model has failed: {error}", status=500) from error
        if not reason:
            raise RequestRefused("The local model stopped in the middle of a reply.", status=500)
        yield End(reason, usage)


class _LlamaServer(Protocol):
    """What is used of `xllamacpp.Server`."""

    listening_address: str


def _load(weights: Path, key: str) -> _LlamaServer:
    try:
        # Here, so that a missing package becomes the sentence below.
        import xllamacpp
    except ImportError as error:
        raise LocalModelUnavailable(f"Package 'xllamacpp' is not installed. {WAY_OUT}") from error
    threads = max(1, min(MAX_THREADS, os.cpu_count() or 1))
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # A cache of whole prompts beside the model's own; 8 GiB by default.
    params.cache_ram_mib = 0
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys, params.cors_origins = [key], "http://127.0.0.1"
    params.ui = params.endpoint_slots = False
    params.verbosity = ERRORS_ONLY
    try:
        server: _LlamaServer = xllamacpp.Server(params)
    except RuntimeError as error:
        raise LocalModelUnavailable(
            f"llama.cpp can't load {str(weights)!r} ({error}). Is it a whole GGUF chat model?"
        ) from error
    return server


def _usage(chunk: JsonObject) -> Usage | None:
    match chunk.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(completion), **rest}:
            details = rest.get("prompt_tokens_details")
            cached = details.get("cached_tokens", 0) if isinstance(details, dict) else 0
            return Usage(prompt, cached, completion)
    return None


def _refusal(data: bytes) -> RequestRefused:
    try:
        error = json.loads(data)["error"]
        kind, status, message = error["type"], int(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return RequestRefused("The local model has failed.", status=500)
    if kind == OVERFLOW:
        return RequestRefused(
            f"The prompt does not fit into the context of {CONTEXT_TOKENS} tokens: {message}",
            param="messages",
            code="context_length_exceeded",
        )
    return RequestRefused(message, status=400 if status < 500 else 500)
