"""Spans of what activities do: `chat` for each request to a model, `execute_tool` for each attempt.

Imported only where the worker records Traces. What is said, and what errors say, is in them only
where that is asked for, without the secrets that the worker knows.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.util.types import AttributeValue
from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.answering import Call
from perdure.activities.openai_chat import Answer
from perdure.activities.redaction import Redactor
from perdure.activities.reported_usage import model_usage
from perdure.activities.span_content import answered, sent, shown
from perdure.activities.tracing import Executed, Replied, Spans
from perdure.agents.tool import AnyTool, Tool
from perdure.runs import spans
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError
from perdure.runs.steps import ModelReply, ToolReply

Attributes = Mapping[str, AttributeValue | None]


class OtelSpans(Spans):
    """Records spans by OpenTelemetry.

    Args:
        redact: Applied to all content.
        content: Whether what is said is recorded as well.
    """

    def __init__(self, redact: Redactor, *, content: bool) -> None:
        self._redact = redact
        self._content = content
        self._tracer = trace.get_tracer(spans.TRACER)

    @contextmanager
    def chat(self, call: Call, body: bytes, answer: Answer) -> Iterator[Replied]:
        """Be in the span of one request to a model while the block runs."""
        request, asked = call.request, call.endpoint
        server = asked.chat.server
        about: Attributes = {
            spans.AGENT: call.agent.name,
            spans.CONVERSATION: request.session_id,
            spans.TURN: request.turn or None,
            spans.PURPOSE: request.purpose if request.step else "judge",
            spans.PROVIDER: server.name,
            spans.SERVER: server.host,
            spans.PORT: server.port,
            spans.REQUEST_MODEL: asked.model,
            spans.REQUEST_STREAM: True,
        }
        with self._span(spans.CHAT, asked.model, SpanKind.CLIENT, about) as span:
            if not span.is_recording():
                yield _unseen
                return
            if self._content:
                _set(span, {spans.INPUT_MESSAGES: sent(body, self._redact)})
            try:
                yield lambda reply: self._replied(span, reply)
            finally:
                _set(span, _of_answer(answer))
                if self._content:
                    _set(span, {spans.OUTPUT_MESSAGES: answered(answer, self._redact)})

    @contextmanager
    def tool(self, tool: AnyTool, request: ToolRequest) -> Iterator[Executed]:
        """Be in the span of one attempt of a tool call while the block runs."""
        about: Attributes = {
            spans.AGENT: request.agent,
            spans.CONVERSATION: request.session_id,
            spans.TURN: request.turn,
            spans.TOOL: request.name,
            spans.TOOL_TYPE: "function" if type(tool) is Tool else "extension",
            spans.CALL_ID: request.call_id,
        }
        with self._span(spans.EXECUTE_TOOL, request.name, SpanKind.INTERNAL, about) as span:
            if self._content:
                _set(span, {spans.ARGUMENTS: shown(request.arguments, self._redact)})
            yield lambda reply: self._executed(span, reply)

    @contextmanager
    def _span(self, operation: str, what: str, kind: SpanKind, about: Attributes) -> Iterator[Span]:
        info = activity.info()
        known: Attributes = {
            spans.OPERATION: operation,
            spans.RUN: info.workflow_id,
            spans.STEP: int(info.activity_id) if info.activity_id.isdecimal() else None,
            spans.ATTEMPT: info.attempt,
            **about,
        }
        started = self._tracer.start_as_current_span(
            f"{operation} {what}",
            kind=kind,
            attributes=_there(known),
            record_exception=False,  # its text, and its locals' text, may be anybody's words
            set_status_on_exception=False,
        )
        with started as span:
            try:
                yield span
            except asyncio.CancelledError:
                _set(span, {spans.ERROR: ErrorCode.CANCELLED.value})
                raise
            except Exception as exc:
                kind_of_error = exc.type if isinstance(exc, ApplicationError) else None
                self._failed(span, kind_of_error or type(exc).__qualname__, str(exc))
                raise

    def _replied(self, span: Span, reply: ModelReply) -> None:
        self._ended(span, reply.error)

    def _executed(self, span: Span, reply: ToolReply) -> None:
        self._ended(span, reply.error)
        if self._content:
            _set(span, {spans.RESULT: shown(reply.text, self._redact)})

    def _ended(self, span: Span, why: RunError | None) -> None:
        if why is not None and why.code is ErrorCode.CANCELLED:
            _set(span, {spans.ERROR: why.code.value})
        elif why is not None:
            self._failed(span, why.code.value, why.message)

    def _failed(self, span: Span, code: str, words: str) -> None:
        _set(span, {spans.ERROR: code})
        span.set_status(StatusCode.ERROR, shown(words, self._redact) if self._content else None)


def _of_answer(answer: Answer) -> Attributes:
    found: dict[str, AttributeValue | None] = {
        spans.RESPONSE_MODEL: answer.model or None,
        spans.RESPONSE_ID: answer.response_id or None,
        spans.FINISH_REASONS: [answer.finish_reason] if answer.finish_reason else None,
    }
    usage = model_usage(answer.usage, answer.model)
    if usage.complete:
        found |= {
            spans.INPUT_TOKENS: usage.input_tokens,
            spans.CACHED_TOKENS: usage.input_tokens_details.cached_tokens,
            spans.OUTPUT_TOKENS: usage.output_tokens,
            spans.REASONING_TOKENS: usage.output_tokens_details.reasoning_tokens,
        }
    return found


def _there(found: Attributes) -> dict[str, AttributeValue]:
    return {name: value for name, value in found.items() if value is not None}


def _set(span: Span, found: Attributes) -> None:
    span.set_attributes(_there(found))


def _unseen(reply: Any) -> None:
    """Pass over what came of something that is not recorded."""
