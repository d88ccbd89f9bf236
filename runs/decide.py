"""What a Run does next: a pure function of what is recorded.

Every rule about going on, stopping and why stands here, as a branch; workflow code has none.
The result is data, so that "what would this Run do next" can be asked, tested and logged.
"""

from dataclasses import dataclass

from perdure.runs.errors import ErrorCode, IllegalEvent, RunError, error
from perdure.runs.events import Cancel
from perdure.runs.limits import MAX_REJECTED_TURNS, MAX_TRANSCRIPT_BYTES
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import Step, ToolCall


@dataclass(frozen=True)
class CallModel:
    """Ask the model for the next turn."""

    turn: int


@dataclass(frozen=True)
class CallTools:
    """Execute these calls, concurrently."""

    turn: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Finish:
    """End the Run."""

    status: RunStatus
    stop_reason: StopReason
    output: str | None = None
    error: RunError | None = None
    reason: str = ""


Decision = CallModel | CallTools | Finish


def decide(run: Run) -> Decision:
    """Return what comes next for a running Run none of whose Steps is running.

    Raises:
        IllegalEvent: When the Run has ended, or a Step of it is running.
    """
    if run.status is not RunStatus.RUNNING or run.current_step is not None:
        raise IllegalEvent(f"Run {run.run_id!r} has nothing to decide.")
    if run.cancel is not None:
        return _stopped(run.cancel)
    last = _last_model_step(run)
    if last is not None and last.status != "completed":
        return _failed(last)
    requested = _requested_calls(run)
    if requested:
        return _within_call_limit(run, requested)
    if last is not None and not _asked_for_tools(run, last):
        return Finish(RunStatus.COMPLETED, StopReason.END_TURN, output=last.text or "")
    return _limit_reached(run) or _misbehaved(run) or CallModel(run.turn + 1)


def _stopped(request: Cancel) -> Finish:
    if request.by == "deadline":
        return Finish(RunStatus.TIMEOUT, StopReason.DEADLINE, error=error(ErrorCode.RUN_TIMEOUT))
    return Finish(RunStatus.CANCELLED, StopReason.USER_CANCEL, reason=request.reason)


def _failed(step: Step) -> Finish:
    why = step.error or error(ErrorCode.INTERNAL, f"Step {step.number} failed without a reason.")
    return Finish(
        RunStatus.FAILED,
        STOP_REASONS.get(why.code, StopReason.ERROR),
        output=step.text,
        error=why.model_copy(update={"step": step.number}),
    )


STOP_REASONS = {
    ErrorCode.CONTENT_FILTERED: StopReason.CONTENT_FILTER,
    ErrorCode.REFUSED: StopReason.REFUSAL,
    ErrorCode.MAX_TURNS: StopReason.MAX_TURNS,
    ErrorCode.MAX_TOOL_CALLS: StopReason.MAX_TOOL_CALLS,
    ErrorCode.MAX_TOKENS: StopReason.MAX_TOKENS,
    ErrorCode.MAX_COST: StopReason.MAX_COST,
    ErrorCode.TERMINATED: StopReason.TERMINATED,
}
"""Stop reasons of error codes; all others are `error`."""


def _limit(code: ErrorCode, message: str) -> Finish:
    return Finish(
        RunStatus.FAILED, STOP_REASONS.get(code, StopReason.ERROR), error=error(code, message)
    )


def _within_call_limit(run: Run, requested: tuple[ToolCall, ...]) -> Decision:
    allowed = run.limits.max_tool_calls
    if allowed is not None and run.usage.tool_calls + len(requested) > allowed:
        return _limit(
            ErrorCode.MAX_TOOL_CALLS,
            f"The model asked for {len(requested)} more tool calls after "
            f"{run.usage.tool_calls} of {allowed}.",
        )
    return CallTools(run.turn, requested)


def _limit_reached(run: Run) -> Finish | None:
    limits = run.limits
    if limits.max_turns is not None and run.turn >= limits.max_turns:
        return _limit(ErrorCode.MAX_TURNS, f"The Run had its {limits.max_turns} turns.")
    if limits.max_tokens is not None and run.total_tokens >= limits.max_tokens:
        return _limit(
            ErrorCode.MAX_TOKENS, f"The Run used {run.total_tokens} of {limits.max_tokens} tokens."
        )
    if limits.max_cost is not None and run.total_cost >= limits.max_cost:
        return _limit(
            ErrorCode.MAX_COST, f"The Run cost {run.total_cost:.4f} of {limits.max_cost} USD."
        )
    if run.transcript_chars > MAX_TRANSCRIPT_BYTES:
        return _limit(
            ErrorCode.CONTEXT_OVERFLOW,
            f"The Run's messages hold {run.transcript_chars} characters, "
            f"more than {MAX_TRANSCRIPT_BYTES}.",
        )
    return None


def _misbehaved(run: Run) -> Finish | None:
    turns = 0
    calls = list(run.tool_calls[-MAX_REJECTED_TURNS * 128 :])
    while calls and calls[-1].status == "rejected":
        model_step = calls[-1].model_step
        if any(c.status != "rejected" for c in calls if c.model_step == model_step):
            return None
        calls = [call for call in calls if call.model_step != model_step]
        turns += 1
    if turns < MAX_REJECTED_TURNS:
        return None
    return _limit(
        ErrorCode.MODEL_MISBEHAVING,
        f"{turns} turns in a row, no tool call of the model could be executed.",
    )


def _last_model_step(run: Run) -> Step | None:
    return next((step for step in reversed(run.steps) if step.kind == "model"), None)


def _requested_calls(run: Run) -> tuple[ToolCall, ...]:
    requested: list[ToolCall] = []
    for call in reversed(run.tool_calls):
        if call.model_step < run.tool_calls[-1].model_step:
            break
        if call.status == "requested":
            requested.append(call)
    return tuple(reversed(requested))


def _asked_for_tools(run: Run, step: Step) -> bool:
    return bool(run.tool_calls) and run.tool_calls[-1].model_step == step.number
