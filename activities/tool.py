"""The activities that execute tools: one for each tool, under its own name."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from temporalio import activity

from perdure.activities.heartbeat import heartbeats, stopped_by_cancel
from perdure.activities.redaction import Redactor
from perdure.activities.transcripts import Transcripts
from perdure.agents.context import ToolContext, entered
from perdure.agents.tool import AnyTool, result_of
from perdure.runs import contract
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_RESULT_BYTES
from perdure.runs.messages import ToolMessage, without_lone_surrogates
from perdure.runs.steps import ToolReply, error_text

ToolActivity = Callable[[ToolRequest], Coroutine[Any, Any, ToolReply]]

STOPPING = (SystemExit, KeyboardInterrupt, StopIteration)
"""What would stop the worker, its thread or, in a future, the wait for the tool."""


def tool_activity(
    tool: AnyTool, threads: Executor, redact: Redactor, transcripts: Transcripts
) -> ToolActivity:
    """Return the activity that executes `tool`.

    A tool's own error is a result that the model reads; only a worker's death makes an
    activity fail.

    Args:
        tool: What to execute.
        threads: Where sync functions run, off the event loop.
        redact: Applied to error texts.
        transcripts: Remembers results for the model call that follows, most often on this worker.
    """

    @activity.defn(name=contract.TOOL_PREFIX + tool.name)
    async def run_tool(request: ToolRequest) -> ToolReply:
        reply = await replied(request)
        transcripts.keep_result(ToolMessage(tool_call_id=request.call_id, content=reply.text))
        return reply

    async def replied(request: ToolRequest) -> ToolReply:
        attempt = activity.info().attempt
        context = ToolContext(
            run_id=activity.info().workflow_id or "",
            call_id=request.call_id,
            idempotency_key=request.idempotency_key,
            attempt=attempt,
        )
        entered(context)
        try:
            async with heartbeats():
                value = await _executed(tool, request, threads)
            return ToolReply(text=_shortened(_text(value)), attempt=attempt)
        except asyncio.CancelledError:
            context.stopping.set()
            if not stopped_by_cancel():
                raise
            return _problem(_stopped(tool), attempt).model_copy(update={"stopped": True})
        except PydanticSerializationError as exc:
            return _problem(error(ErrorCode.RESULT_NOT_SERIALISABLE, str(exc)), attempt)
        except Exception as exc:  # noqa: BLE001 - whatever a user's tool raises is for the model to read
            said = without_lone_surrogates(redact(f"{type(exc).__name__}: {exc}"))
            return _problem(error(ErrorCode.TOOL_FAILED, _shortened(said)), attempt)

    return run_tool


async def _executed(tool: AnyTool, request: ToolRequest, threads: Executor) -> Any:
    arguments = tool.keyword_arguments(request.arguments)
    if tool.is_async:
        try:
            return await result_of(tool.function(**arguments))
        except STOPPING as exc:
            raise _harmless(exc) from exc
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    # A cancelled Run does not wait for the thread: it can't be stopped, its result is dropped.
    return await loop.run_in_executor(threads, context.run, _guarded, tool, arguments)


def _guarded(tool: AnyTool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.function(**arguments)
    except STOPPING as exc:
        raise _harmless(exc) from exc


def _harmless(exc: BaseException) -> RuntimeError:
    return RuntimeError(f"The tool raised {type(exc).__name__}: {exc}")


def _stopped(tool: AnyTool) -> RunError:
    if tool.policy.effect == "read":
        return error(ErrorCode.CANCELLED)
    return error(
        ErrorCode.OUTCOME_UNKNOWN,
        "The tool was stopped with its Run while it was running; whether it had its effect is "
        "unknown.",
    )


def _problem(why: RunError, attempt: int) -> ToolReply:
    return ToolReply(text=error_text(why), attempt=attempt, error=why)


def _text(value: Any) -> str:
    """Return what the model reads: text as it is, anything else as strict JSON, NaN as null."""
    if isinstance(value, str):
        return without_lone_surrogates(value)
    try:
        if isinstance(value, BaseModel):
            return value.model_dump_json()
        return _json(value)
    except PydanticSerializationError:
        # It may be for nothing but half a character: file names that are no UTF-8 have some.
        return _json(_valid(to_jsonable_python(value)))


def _json(value: Any) -> str:
    return to_json(value, inf_nan_mode="null").decode()


def _valid(value: Any) -> Any:
    match value:
        case str():
            return without_lone_surrogates(value)
        case list():
            return [_valid(item) for item in value]
        case dict():
            return {key: _valid(item) for key, item in value.items()}
        case _:
            return value


def _shortened(text: str) -> str:
    """Cut what is too large in the middle, and say so."""
    raw = text.encode()
    if len(raw) <= MAX_RESULT_BYTES:
        return text
    half = MAX_RESULT_BYTES // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore")
    return f"{head}\n[… {len(raw) - 2 * half} of {len(raw)} bytes left out …]\n{tail}"
