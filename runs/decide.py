"""What a Run does next: a pure function of what is recorded.

Every rule about going on, stopping and why stands here or in `limit_rules`, as a branch;
workflow code has none. The result is data, so that "what would this Run do next" can be asked,
tested and logged.
"""

from dataclasses import dataclass

from perdure.runs.errors import ErrorCode, IllegalEvent, RunError, error
from perdure.runs.events import Cancel
from perdure.runs.limit_rules import before_model, before_tools
from perdure.runs.limits import MAX_REJECTED_TURNS, MAX_TRANSCRIPT_BYTES
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, StopReason
from perdure.runs.steps import Purpose, Step, ToolCall
from perdure.runs.transcript import cut, has_followed_up, is_nearly_full, last_answer


@dataclass(frozen=True)
class CallModel:
    """Call the model: for the next turn, to conclude, or to sum up older messages."""

    turn: int
    purpose: Purpose = "turn"
    model: str | None = None
    """The model that the Run goes on with, where the one before is given up."""
    limit: RunError | None = None
    """The limit that was reached, where the model is to conclude."""


@dataclass(frozen=True)
class CallTools:
    """Execute these calls, concurrently."""

    turn: int
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Pause:
    """Wait for a person: to raise the limit, or to let a Run go on that one has paused."""

    limit: RunError | None = None
    """None when a person paused the Run."""
    reason: str = ""
    """Why a person did."""


@dataclass(frozen=True)
class Finish:
    """End the Run."""

    status: RunStatus
    stop_reason: StopReason
    output: str | None = None
    error: RunError | None = None
    reason: str = ""


Decision = CallModel | CallTools | Pause | Finish


def decide(run: Run) -> Decision:
    """Return what comes next for an open Run none of whose Steps is running.

    Raises:
        IllegalEvent: When the Run has ended, a Step of it is running, or it is not its turn.
    """
    if run.status.is_terminal or run.current_step is not None:
        raise IllegalEvent(f"Run {run.run_id!r} has nothing to decide.")
    if run.cancel is not None:
        return _stopped(run.cancel)
    if run.status is not RunStatus.RUNNING:
        raise IllegalEvent(f"Run {run.run_id!r} has not begun.")
    if run.pause_reason is not None:
        # Its end waits, too: whoever paused it may have something to say before that.
        return Pause(reason=run.pause_reason)
    failed = _failed_step(run)
    if failed is not None:
        return _after_failure(run, failed)
    requested = _requested_calls(run)
    if requested:
        reached = before_tools(run, len(requested))
        return CallTools(run.turn, requested) if reached is None else _at_limit(run, reached)
    answer = last_answer(run)
    if answer is not None and _is_final(run, answer):
        return _completed(run, answer)
    reached = before_model(run)
    if reached is not None:
        return _at_limit(run, reached)
    return _too_much(run) or _misbehaved(run) or _next_call(run)


def _stopped(request: Cancel) -> Finish:
    if request.by == "deadline":
        return Finish(RunStatus.TIMEOUT, StopReason.DEADLINE, error=error(ErrorCode.RUN_TIMEOUT))
    if request.by == "queue":
        why = error(ErrorCode.QUEUE_EXPIRED)
        return Finish(RunStatus.TIMEOUT, StopReason.QUEUE_EXPIRED, error=why)
    why_not = StopReason.USER_CANCEL if request.by == "user" else StopReason.SUPERSEDED
    return Finish(RunStatus.CANCELLED, why_not, reason=request.reason)


def _completed(run: Run, answer: Step) -> Finish:
    why = StopReason.END_TURN
    if answer.purpose == "conclude" and run.limit_reached is not None:
        why = STOP_REASONS.get(run.limit_reached.code, StopReason.END_TURN)
    return Finish(RunStatus.COMPLETED, why, output=answer.text or "")


def _after_failure(run: Run, step: Step) -> Decision:
    why = step.error or error(ErrorCode.INTERNAL, f"Step {step.number} failed without a reason.")
    if why.fallback is not None:
        return CallModel(step.turn, step.purpose, model=why.fallback, limit=run.limit_reached)
    if why.code is ErrorCode.CONTEXT_OVERFLOW and step.purpose == "turn" and _can_compact(run):
        return CallModel(step.turn, "compact")
    if step.purpose == "conclude" and run.limit_reached is not None:
        return _failed(run.limit_reached.model_copy(update={"step": step.number}), step.text)
    return _failed(why.model_copy(update={"step": step.number}), step.text)


def _failed(why: RunError, said: str | None = None) -> Finish:
    reason = STOP_REASONS.get(why.code, StopReason.ERROR)
    return Finish(RunStatus.FAILED, reason, output=said, error=why)


STOP_REASONS = {
    ErrorCode.CONTENT_FILTERED: StopReason.CONTENT_FILTER,
    ErrorCode.REFUSED: StopReason.REFUSAL,
    ErrorCode.MAX_TURNS: StopReason.MAX_TURNS,
    ErrorCode.MAX_TOOL_CALLS: StopReason.MAX_TOOL_CALLS,
    ErrorCode.MAX_IDENTICAL_CALLS: StopReason.MAX_IDENTICAL_CALLS,
    ErrorCode.MAX_TOKENS: StopReason.MAX_TOKENS,
    ErrorCode.MAX_COST: StopReason.MAX_COST,
    ErrorCode.MAX_OUTPUT: StopReason.MAX_OUTPUT,
    ErrorCode.TERMINATED: StopReason.TERMINATED,
}
"""Stop reasons of error codes; all others are `error`."""


def _at_limit(run: Run, reached: RunError) -> Decision:
    match run.on_limit:
        case "finalize":
            return CallModel(next_turn(run), "conclude", limit=reached)
        case "pause":
            return Pause(reached)
        case _:
            return _failed(reached)


def _next_call(run: Run) -> CallModel:
    if is_nearly_full(run) and _can_compact(run):
        return CallModel(next_turn(run), "compact")
    return CallModel(next_turn(run))


def next_turn(run: Run) -> int:
    """Return the number of the turn that the next model call belongs to.

    One that failed, or that only made room, did not use its turn up.
    """
    last = next((step for step in reversed(run.steps) if step.kind == "model"), None)
    if last is None:
        return 1
    return last.turn + (last.status == "completed" and last.purpose != "compact")


def _can_compact(run: Run) -> bool:
    """Tell whether there is something to sum up, and an answer since that was done last."""
    answer = last_answer(run)
    if run.compaction is not None and (answer is None or answer.number < run.compaction.step):
        return False
    return cut(run) is not None


def _too_much(run: Run) -> Finish | None:
    if run.transcript_chars <= MAX_TRANSCRIPT_BYTES:
        return None
    return _failed(
        error(
            ErrorCode.CONTEXT_OVERFLOW,
            f"The Run's messages hold {run.transcript_chars} characters, "
            f"more than {MAX_TRANSCRIPT_BYTES}.",
        )
    )


def _misbehaved(run: Run) -> Finish | None:
    turns = 0
    calls = [c for c in run.tool_calls[-MAX_REJECTED_TURNS * 128 :] if _counts(run, c)]
    while calls and calls[-1].status == "rejected":
        model_step = calls[-1].model_step
        if any(c.status != "rejected" for c in calls if c.model_step == model_step):
            return None
        calls = [call for call in calls if call.model_step != model_step]
        turns += 1
    if turns < MAX_REJECTED_TURNS:
        return None
    return _failed(
        error(
            ErrorCode.MODEL_MISBEHAVING,
            f"{turns} turns in a row, no tool call of the model could be executed.",
        )
    )


def _counts(run: Run, call: ToolCall) -> bool:
    return call.model_step > run.resumed_step


def _failed_step(run: Run) -> Step | None:
    """Return the last model Step, if it failed since the Run was started or resumed."""
    for step in reversed(run.steps[run.resumed_step :]):
        if step.kind == "model":
            return step if step.status != "completed" else None
    return None


def _requested_calls(run: Run) -> tuple[ToolCall, ...]:
    requested: list[ToolCall] = []
    for call in reversed(run.tool_calls):
        if call.model_step < run.tool_calls[-1].model_step:
            break
        if call.status == "requested":
            requested.append(call)
    return tuple(reversed(requested))


def _is_final(run: Run, answer: Step) -> bool:
    """Tell whether an answer needs nothing more: no tools asked for, nothing said since."""
    if has_followed_up(run, answer):
        return False
    return not (run.tool_calls and run.tool_calls[-1].model_step == answer.number)
