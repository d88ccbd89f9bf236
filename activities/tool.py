"""The activities that execute tools: one for each tool, under its own name."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import activity

from perdure.activities import metered
from perdure.activities.checked_calls import argument_refusal
from perdure.activities.failure import ToolProblem, failed
from perdure.activities.gate import refusal
from perdure.activities.heartbeat import Progress, heartbeats, stopped_by_cancel
from perdure.activities.publishing import Tell
from perdure.activities.redaction import Redactor
from perdure.activities.threads import Threads, WorkerBusy, harmless
from perdure.activities.tool_files import has_files, without_files
from perdure.activities.tracing import Spans
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.context import ToolContext
from perdure.agents.tool import AnyTool
from perdure.runs import contract, metrics
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode, RunError, StorageUnavailable, ToolRefused, error
from perdure.runs.files import FileRef, StoredText
from perdure.runs.limits import DEFAULT_TOOL_S, MAX_FULL_RESULT_BYTES, MAX_RESULT_BYTES
from perdure.runs.messages import ToolMessage, without_lone_surrogates
from perdure.runs.results import shortened
from perdure.runs.steps import ToolReply, error_text
from perdure.runs.strict_json import NotJson, strict_json

log = logging.getLogger(__name__)

ToolActivity = Callable[[ToolRequest], Coroutine[Any, Any, ToolReply]]
Keep = Callable[[bytes, str], Awaitable[StoredText]]
"""Stores a text of a Run, given as UTF-8."""


@dataclass(frozen=True)
class Surroundings:
    """What a worker has for the tools that it executes.

    Attributes:
        agents: Returns an agent of the worker by its name: its rules hold for the tool.
        threads: Where sync functions run, off the event loop.
        redact: Applied to error texts, results and progress; knows the secrets.
        transcripts: Remembers results for the model call that follows, most often on this worker.
        keep: Keeps a result whole that the model sees cut.
        secrets: What tools may ask for, by name.
        tell: Lets somebody hear how far they are, besides heartbeats.
        spans: Records their attempts.
    """

    agents: Callable[[str], Agent | None]
    threads: Threads
    redact: Redactor
    transcripts: Transcripts
    keep: Keep
    secrets: Mapping[str, str] = field(default_factory=dict)
    tell: Tell = nullcontext
    spans: Spans = field(default_factory=Spans)


def tool_activity(tool: AnyTool, given: Surroundings) -> ToolActivity:
    """Return the activity that executes `tool`.

    A tool's own error is a result that the model reads; only a worker's death makes an
    activity fail.

    Args:
        tool: What to execute.
        given: What the worker has for it.
    """
    redact = given.redact

    @activity.defn(name=contract.TOOL_PREFIX + tool.name)
    async def run_tool(request: ToolRequest) -> ToolReply:
        with given.spans.tool(tool, request) as executed:
            reply = await metered.timed_tool(tool.name, replied(request))
            executed(reply)
        given.transcripts.keep_result(ToolMessage(tool_call_id=request.call_id, content=reply.text))
        return reply

    async def replied(request: ToolRequest) -> ToolReply:
        context = _context(request, given)
        attempt = context.attempt
        so_far = partial(_so_far, context)
        try:
            with context:
                async with heartbeats(so_far), given.tell(so_far):
                    agent = given.agents(request.agent)
                    refused = refusal(agent, tool, request, context.run_id)
                    refused = refused or await argument_refusal(agent, tool, request, redact)
                    if refused is not None:
                        return _problem(refused, attempt)
                    made = await _executed(tool, request, given.threads, context)
                    files: tuple[FileRef, ...] = ()
                    if has_files(made):
                        value, files = await without_files(made, given.keep)
                        made = _utf8(value)
                    raw = redact.known_in(_edited(request) + made)
                    reply = await _reply(raw, attempt, request.step, given.keep)
                    return reply.model_copy(update={"files": files})
        except asyncio.CancelledError:
            context.cancel()
            if not stopped_by_cancel():
                raise
            return _problem(_stopped(tool), attempt).model_copy(update={"stopped": True})
        except ToolProblem as exc:
            return _told(exc.why, attempt)
        except Exception as exc:  # noqa: BLE001 - whatever a user's tool raises is for the model to read
            return _problem(_raised(exc, redact), attempt)

    return run_tool


def _raised(exc: Exception, redact: Redactor) -> RunError:
    """Return what the model is told of something that a tool raised, or that raised for it."""
    code, said = ErrorCode.TOOL_FAILED, f"{type(exc).__name__}: {exc}"
    match exc:
        case WorkerBusy():
            log.warning("%s", exc)
            return error(ErrorCode.WORKER_BUSY)
        case NotJson():
            code = ErrorCode.RESULT_NOT_SERIALISABLE
            said = f"The tool returned something that JSON can't hold: {exc}."
        case ToolRefused():
            code, said = exc.code, exc.message
        case _:
            # The model gets its words; whoever has written the tool wants to know the place.
            log.warning("The tool raised an error.", exc_info=exc, extra={"code": code})
    return error(code, shortened(without_lone_surrogates(redact(said)).encode()))


def _context(request: ToolRequest, given: Surroundings) -> ToolContext:
    info = activity.info()
    allowed = info.start_to_close_timeout or timedelta(seconds=DEFAULT_TOOL_S)
    return ToolContext(
        run_id=info.workflow_id or "",
        session_id=request.session_id,
        agent=request.agent,
        step=request.step,
        turn=request.turn,
        call_id=request.call_id,
        idempotency_key=request.idempotency_key,
        attempt=info.attempt,
        deadline=info.started_time + allowed,
        variables=request.variables,
        secrets=given.secrets,
        redact=given.redact,
    )


def _so_far(context: ToolContext) -> Progress:
    said = context.last_progress
    if said is None:
        return Progress()  # no news: it is told once a second, as a sign of life
    return Progress(message=said.message, fraction=said.fraction, attempt=context.attempt)


async def _executed(
    tool: AnyTool, request: ToolRequest, threads: Threads, context: ToolContext
) -> Any:
    """Return what a tool brings: as UTF-8, unless there are files in it.

    The value itself is let go of: it may take 100 MB.
    """
    arguments = tool.keyword_arguments(request.arguments, context)
    if tool.is_async:
        return _written(await _awaited(tool.function(**arguments)))
    # A cancelled Run does not wait for the thread: it can't be stopped, its result is dropped.
    made = await threads.run(partial(_called, tool, arguments), f"tool {tool.name}")
    return _written(await _awaited(made)) if isinstance(made, Awaitable) else made


def _called(tool: AnyTool, arguments: dict[str, Any]) -> Any:
    value = tool.function(**arguments)
    # Written in the thread, too: a generator still runs the tool's code, and large data takes long.
    return value if isinstance(value, Awaitable) else _written(value)


def _written(value: Any) -> Any:
    return value if has_files(value) else _utf8(value)


async def _awaited(value: Awaitable[Any]) -> Any:
    try:
        return await value
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Not ours: something that the tool waited for was cancelled.
        raise harmless(exc) from exc
    except (SystemExit, KeyboardInterrupt, StopIteration) as exc:
        raise harmless(exc) from exc


def _stopped(tool: AnyTool) -> RunError:
    if tool.policy.effect == "read":
        return error(ErrorCode.CANCELLED)
    return error(
        ErrorCode.OUTCOME_UNKNOWN,
        "The tool was stopped with its Run while it was running; whether it had its effect is "
        "unknown.",
    )


def _told(why: RunError, attempt: int) -> ToolReply:
    policy = activity.info().retry_policy
    if why.retryable and policy is not None and attempt < policy.maximum_attempts:
        metered.record(metrics.ATTEMPTS_RETRIED, 1, kind="tool", code=why.code.value)
        raise failed(why) from None
    return _problem(why, attempt)


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
        log.warning("The whole result is lost.", extra={"code": exc.code, "content": exc.message})
        return ToolReply(text=shortened(raw, "; they could not be kept"), attempt=attempt)
    how = f"; the whole result: perdure result {run_id} {step}"
    return ToolReply(text=shortened(raw, how), attempt=attempt, full=full)


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
