"""The activities that execute tools: one for each tool, under its own name."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

from pydantic import ValidationError
from temporalio import activity

from perdure.activities.calls import told
from perdure.activities.gate import refusal
from perdure.activities.heartbeat import heartbeats, stopped_by_cancel
from perdure.activities.redaction import Redactor
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.context import ToolContext, entered
from perdure.agents.tool import AnyTool, result_of
from perdure.runs import contract
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, StorageUnavailable, error
from perdure.runs.limits import MAX_FULL_RESULT_BYTES, MAX_RESULT_BYTES
from perdure.runs.messages import ToolMessage, without_lone_surrogates
from perdure.runs.steps import StoredText, ToolReply, error_text
from perdure.runs.strict_json import NotJson, strict_json

ToolActivity = Callable[[ToolRequest], Coroutine[Any, Any, ToolReply]]
Keep = Callable[[bytes, str], Awaitable[StoredText]]
"""Stores a text of a Run, given as UTF-8."""

STOPPING = (SystemExit, KeyboardInterrupt, StopIteration)
"""What would stop the worker, its thread or, in a future, the wait for the tool."""


def tool_activity(
    tool: AnyTool,
    agents: Callable[[str], Agent | None],
    threads: Executor,
    redact: Redactor,
    transcripts: Transcripts,
    keep: Keep,
) -> ToolActivity:
    """Return the activity that executes `tool`.

    A tool's own error is a result that the model reads; only a worker's death makes an
    activity fail.

    Args:
        tool: What to execute.
        agents: Returns an agent of the worker by its name: its rules hold for the tool.
        threads: Where sync functions run, off the event loop.
        redact: Applied to error texts.
        transcripts: Remembers results for the model call that follows, most often on this worker.
        keep: Keeps a result whole that the model sees cut.
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
            variables=request.variables,
        )
        entered(context)
        try:
            async with heartbeats():
                agent = agents(request.agent)
                try:
                    arguments = tool.keyword_arguments(request.arguments)
                except ValidationError as exc:  # a person has edited them
                    return _problem(error(ErrorCode.TOOL_ARGUMENTS_INVALID, told(exc)), attempt)
                refused = refusal(agent, tool, request, context.run_id, arguments)
                if refused is not None:
                    return _problem(refused, attempt)
                # The value itself is let go of at once: it may take a hundred megabytes.
                raw = _edited(request) + _utf8(await _executed(tool, arguments, threads))
                return await _reply(raw, attempt, request.step, keep)
        except asyncio.CancelledError:
            context.stopping.set()
            if not stopped_by_cancel():
                raise
            return _problem(_stopped(tool), attempt).model_copy(update={"stopped": True})
        except NotJson as exc:
            why = f"The tool returned something that JSON can't hold: {exc}."
            return _problem(error(ErrorCode.RESULT_NOT_SERIALISABLE, why), attempt)
        except Exception as exc:  # noqa: BLE001 - whatever a user's tool raises is for the model to read
            said = without_lone_surrogates(redact(f"{type(exc).__name__}: {exc}"))
            return _problem(error(ErrorCode.TOOL_FAILED, _shortened(said.encode())), attempt)

    return run_tool


async def _executed(tool: AnyTool, arguments: dict[str, Any], threads: Executor) -> Any:
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


async def _reply(raw: bytes, attempt: int, step: int, keep: Keep) -> ToolReply:
    if len(raw) <= MAX_RESULT_BYTES:
        return ToolReply(text=raw.decode(), attempt=attempt)
    if len(raw) > MAX_FULL_RESULT_BYTES:
        why = f"The tool returned {len(raw):,} bytes; {MAX_FULL_RESULT_BYTES:,} are allowed."
        return _problem(error(ErrorCode.RESULT_TOO_LARGE, why), attempt)
    run_id = activity.info().workflow_id or ""
    try:
        full = await keep(raw, run_id)
    except StorageUnavailable as exc:
        # The tool has run: what the model can see of its result is more than nothing.
        activity.logger.warning("The whole result is lost: %s", exc)
        return ToolReply(text=_shortened(raw, "; they could not be kept"), attempt=attempt)
    how = f"; the whole result: perdure result {run_id} {step}"
    return ToolReply(text=_shortened(raw, how), attempt=attempt, full=full)


def _edited(request: ToolRequest) -> bytes:
    """Return what the model is to know when a person has changed its arguments."""
    if request.approval is None or not request.approval.edited:
        return b""
    return f"[A person changed the arguments to {request.arguments}]\n".encode()


def _utf8(value: Any) -> bytes:
    """Return what the model reads: text as it is, anything else as strict JSON."""
    if isinstance(value, str):
        return without_lone_surrogates(value).encode()
    return strict_json(value)


def _shortened(raw: bytes, notice: str = "") -> str:
    """Cut what is too large in the middle, and say so."""
    if len(raw) <= MAX_RESULT_BYTES:
        return raw.decode()
    half = MAX_RESULT_BYTES // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore")
    return f"{head}\n[… {len(raw) - 2 * half} of {len(raw)} bytes left out{notice} …]\n{tail}"
