"""What sets one model, or its server, apart from the Chat Completions reference."""

from dataclasses import dataclass
from typing import Literal

Structured = Literal["native", "tool", "prompt"]
"""How a model is told what its answer has to fit: by the request's `response_format`; by a tool
whose call is the answer; or in words."""


@dataclass(frozen=True)
class ModelProfile:
    """How requests to a model are written, where its server refuses the usual form.

    The defaults follow the reference. Nothing is found out or left out by itself: a server
    that refuses a request ends the Run `invalid_request`, with its own words.
    """

    null_content: bool = True
    """Beside tool calls without text, `content` is null; False sends an empty string."""
    stream_usage: bool = True
    """Ask for token counts (`stream_options`); False for proxies that refuse the parameter.
    Usage is then unknown, unless the server reports it unasked."""
    images: bool = True
    """Whether it reads images. A Run that is started with something its model can't read is
    refused `unsupported_file`; of anything else of the kind, the model is told that it is there."""
    documents: bool = True
    """The same of PDF files."""
    audio: bool = True
    """The same of WAV and MP3 files."""
    structured: Structured = "native"
    """How the model is told of the schema that its answer has to fit, where there is one. `tool`
    for servers that do not take `response_format`, or not together with tools; `prompt` for those
    that have no tools either. The answer is checked whatever is chosen."""
    echo_fields: tuple[str, ...] = ()
    """Fields of the model's messages that it wants back, such as `reasoning_content`: sent with
    the message that they came with, empty where one had none. Up to 64 KiB of text each."""
