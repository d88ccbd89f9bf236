"""What a Run does next: a pure function of what is recorded.

Every rule about going on, stopping and why stands here or in `limit_rules`, as a branch;
workflow code has none. The result is data, so that "what would this Run do next" can be asked,
tested and logged.
"""

from dataclasses import dataclass
from datetime import datetime

from perdure.runs import gate
from perdure.runs.errors import ErrorCode, IllegalEvent, RunError, error
from perdure.runs.events import Cancel
from perdure.runs.limit_rules import before_model, before_tools, beyond_repair
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
class Ask:
    """Ask people to decide something, and go on with what does not depend on it."""


@dataclass(frozen=True)
class AwaitPeople:
    """Wait until one of these actions is decided, or the first of them expires."""

    action_ids: tuple[str, ...]
    until: datetime | None


@dataclass(frozen=True)
class HandOff:
    """Go on as another agent."""

    agent: str
    call_id: str


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


Decision = CallModel | CallTools | Ask | AwaitPeople | HandOff | Pause | Finish


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
        return _with_calls(run, ()) or _after_failure(run, failed)
    asking = _with_calls(run, gate.requested_calls(run))
    if asking is not None:
        return asking
    answer = last_answer(run)
    if answer is not None and _is_final(run, answer):
        return _completed(run, answer)
    reached = before_model(run)
    if reached is not None:
        return _at_limit(run, reached)
    wrong = beyond_repair(run)
    return _failed(wrong.why, wrong.said) if wrong is not None else _next_call(run)


def also_ready(run: Run) -> tuple[ToolCall, ...]:
    """Return the calls that may start while others of their turn are being executed."""
    if run.status is not RunStatus.RUNNING or run.cancel is not None:
        return ()
    if run.pause_reason is not None:
        return ()
    ready = _executable(gate.requested_calls(run))
    running = sum(1 for call in gate.latest_calls(run) if call.status == "running")
    if not ready or before_tools(run, running + len(ready)) is not None:
        return ()
    return ready


def _with_calls(run: Run, requested: tuple[ToolCall, ...]) -> Decision | None:
    """Return what is to be done about the calls of the latest turn; none when all is done."""
    executed = [call for call in requested if call.policy.kind in ("function", "agent")]
    reached = before_tools(run, len(executed)) if executed else None
    if reached is not None:
        return _at_limit(run, reached)
    if gate.has_to_ask(run):
        return Ask()
    ready = _executable(requested)
    if ready:
        return CallTools(run.turn, ready)
    actions = gate.open_actions(run)
    if actions:
        due = gate.due(run)
        ids = tuple(action.action_id for action in actions)
        return AwaitPeople(ids, due.expires_at if due is not None else None)
    if requested:
        # Whoever goes on is to see what the other calls brought.
        return HandOff(requested[0].policy.target or "", requested[0].call_id)
    return None


def _executable(requested: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    return tuple(
        call
        for call in requested
        if gate.is_let_through(call) and call.policy.kind in ("function", "agent")
    )


def _stopped(request: Cancel) -> Finish:
    if request.by == "deadline":
        return Finish(RunStatus.TIMEOUT, StopReason.DEADLINE, error=error(ErrorCode.RUN_TIMEOUT))
    if request.by == "queue":
        why = error(ErrorCode.QUEUE_EXPIRED)
        return Finish(RunStatus.TIMEOUT, StopReason.QUEUE_EXPIRED, error=why)
    why_not = StopReason.USER_CANCEL if request.by == "user" else StopReason.SUPERSEDED
    return Finish(RunStatus.CANCELLED, why_not, reason=request.reason)


def _completed(run: Run, answer: Step) -> Finish:
    refused = _refusal_of(answer)
    if refused is not None:
        return _failed(refused, answer.text)
    why = StopReason.END_TURN
    if answer.purpose == "conclude" and run.limit_reached is not None:
        why = STOP_REASONS.get(run.limit_reached.code, StopReason.END_TURN)
    return Finish(RunStatus.COMPLETED, why, output=answer.text or "")


def _refusal_of(step: Step) -> RunError | None:
    """Return why a person refused what a model Step was about, if one did."""
    if step.action is None or step.action.is_approved or step.action.resolution is None:
        return None
    resolution = step.action.resolution
    how = "Nobody approved" if resolution.verdict == "expired" else "A person refused"
    note = f": {resolution.note}" if resolution.note else "."
    said = f"{how} the {step.action.about} of the Run{note}"
    return error(ErrorCode.GUARDRAIL, said, details={"about": step.action.about})


def _after_failure(run: Run, step: Step) -> Decision:
    if step.action is not None and step.action.is_approved:
        return CallModel(step.turn, step.purpose, limit=run.limit_reached)
    refused = _refusal_of(step)
    if refused is not None:
        return _failed(refused.model_copy(update={"step": step.number}))
    if step.checked is not None and step.checked.inputs:
        return CallModel(step.turn, step.purpose, limit=run.limit_reached)
    why = step.error or error(ErrorCode.INTERNAL, f"Step {step.number} failed without a reason.")
    if why.fallback is not None:
        return CallModel(step.turn, step.purpose, model=why.fallback, limit=run.limit_reached)
    if why.code is ErrorCode.CONTEXT_OVERFLOW and step.purpose == "turn" and _can_compact(run):
        return CallModel(step.turn, "compact")
    refuses = why.code is ErrorCode.GUARDRAIL
    if step.purpose == "conclude" and run.limit_reached is not None and not refuses:
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


def _failed_step(run: Run) -> Step | None:
    """Return the last model Step, if it failed since the Run was started or resumed."""
    for step in reversed(run.steps[run.resumed_step :]):
        if step.kind == "model":
            return step if step.status != "completed" else None
    return None


def _is_final(run: Run, answer: Step) -> bool:
    """Tell whether an answer needs nothing more: no tools asked for, nothing said since."""
    if has_followed_up(run, answer) or (answer.unfit is not None and answer.purpose == "turn"):
        return False
    return not (run.tool_calls and run.tool_calls[-1].model_step == answer.number)
