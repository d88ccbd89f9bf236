"""Spans of what activities do, where the worker records Traces: nothing where it does not."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from perdure.activities.openai_chat import Answer
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ToolRequest
from perdure.runs.steps import ModelReply, ToolReply

if TYPE_CHECKING:
    from perdure.activities.answering import Call

Replied = Callable[[ModelReply], object]
"""Takes what a model's answer came to."""
Executed = Callable[[ToolReply], object]
"""Takes what a tool call came to."""


class Spans:
    """Records nothing."""

    def chat(self, call: "Call", body: bytes, answer: Answer) -> AbstractContextManager[Replied]:
        """Be in the span of one request to a model while the block runs.

        Args:
            call: What it is for.
            body: What is sent.
            answer: What comes back, as far as it came.
        """
        return nullcontext(_ignored)

    def tool(self, tool: AnyTool, request: ToolRequest) -> AbstractContextManager[Executed]:
        """Be in the span of one attempt of a tool call while the block runs."""
        return nullcontext(_ignored)


def _ignored(reply: ModelReply | ToolReply) -> None:
    """Pass over what came of it."""
