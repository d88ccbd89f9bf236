"""Which limit of a Run is reached, if any: asked between Steps, so none is passed by more than one.

Tools are not executed, and models not called, beyond a limit; what was done is kept.
"""

import json
from dataclasses import dataclass
from itertools import takewhile

from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import (
    MAX_REJECTED_TURNS,
    MAX_TRANSCRIPT_BYTES,
    MAX_UNFIT_ANSWERS,
    Limits,
)
from perdure.runs.run import Run
from perdure.runs.steps import Step, ToolCall
from perdure.runs.transcript import last_answer


def before_tools(run: Run, requested: int) -> RunError | None:
    """Return the limit that keeps `requested` more tools from being executed."""
    allowed = run.limits.max_tool_calls
    if allowed is not None and run.usage.tool_calls + requested > allowed:
        return error(
            ErrorCode.MAX_TOOL_CALLS,
            f"The model asked for {requested} more tool calls after "
            f"{run.usage.tool_calls} of {allowed}.",
        )
    return _spent(run)


def before_model(run: Run) -> RunError | None:
    """Return the limit that keeps the model from being called again."""
    turns, limits = _turns(run), run.limits
    if limits.max_turns is not None and turns >= limits.max_turns:
        return error(ErrorCode.MAX_TURNS, f"The Run had its {limits.max_turns} turns.")
    return _spent(run) or _going_in_circles(run)


def left(run: Run, parts: int) -> Limits:
    """Return one of so many equal parts of the tokens and the money that a Run has left."""
    tokens = [each.max_tokens for each in (run.limits, run.budget) if each.max_tokens is not None]
    costs = [each.max_cost for each in (run.limits, run.budget) if each.max_cost is not None]
    return Limits(
        max_tokens=max(1, (min(tokens) - run.total_tokens) // parts) if tokens else None,
        max_cost=max(LEAST_COST, (min(costs) - run.total_cost) / parts) if costs else None,
    )


LEAST_COST = 1e-6
"""USD; a limit is above 0."""


@dataclass(frozen=True)
class Wrong:
    """Why a Run can't go on, and what its model said last."""

    why: RunError
    said: str | None = None


def beyond_repair(run: Run) -> Wrong | None:
    """Return why calling the model again would not help, if so."""
    return _too_much(run) or _misbehaved(run) or _unfit(run)


def _too_much(run: Run) -> Wrong | None:
    if run.transcript_chars <= MAX_TRANSCRIPT_BYTES:
        return None
    return Wrong(
        error(
            ErrorCode.CONTEXT_OVERFLOW,
            f"The Run's messages hold {run.transcript_chars} characters, "
            f"more than {MAX_TRANSCRIPT_BYTES}.",
        )
    )


def _misbehaved(run: Run) -> Wrong | None:
    turns = 0
    calls = [c for c in run.tool_calls[-MAX_REJECTED_TURNS * 128 :] if _counts(run, c)]
    while calls and calls[-1].status == "rejected":
        model_step = calls[-1].model_step
        if any(_is_usable(c) for c in calls if c.model_step == model_step):
            return None
        calls = [call for call in calls if call.model_step != model_step]
        turns += 1
    if turns < MAX_REJECTED_TURNS:
        return None
    return Wrong(
        error(
            ErrorCode.MODEL_MISBEHAVING,
            f"{turns} turns in a row, no tool call of the model could be executed.",
        )
    )


def _is_usable(call: ToolCall) -> bool:
    """Tell whether a call was one that could be executed, had a person not rejected it."""
    return call.status != "rejected" or call.action is not None


def _counts(run: Run, call: ToolCall) -> bool:
    return call.model_step > run.resumed_step


def _unfit(run: Run) -> Wrong | None:
    latest: list[Step] = []
    for step in reversed(run.steps[run.resumed_step :]):
        if step.kind == "model" and step.purpose == "turn" and step.status == "completed":
            latest.append(step)
        if len(latest) == MAX_UNFIT_ANSWERS or (latest and latest[-1].unfit is None):
            break
    if len(latest) < MAX_UNFIT_ANSWERS or latest[-1].unfit is None:
        return None
    why = latest[0].unfit or error(ErrorCode.OUTPUT_INVALID)
    # What a check of the agent refused is not shown as what the Run came to.
    said = None if why.code is ErrorCode.GUARDRAIL else latest[0].text
    return Wrong(why.model_copy(update={"step": latest[0].number}), said)


def _spent(run: Run) -> RunError | None:
    return _spent_of(run, run.limits, {}) or _spent_of(run, run.budget, _LEFT)


_LEFT = {"hint": "Raise the limits of its Session, or of the Run that called it."}


def _spent_of(run: Run, limits: Limits, way_out: dict[str, str]) -> RunError | None:
    if limits.max_tokens is not None and run.total_tokens >= limits.max_tokens:
        used = f"The Run used {run.total_tokens} of {limits.max_tokens} tokens."
        return error(ErrorCode.MAX_TOKENS, used, **way_out)
    if limits.max_cost is not None and run.total_cost >= limits.max_cost:
        cost = f"The Run cost {run.total_cost:.4f} of {limits.max_cost:g} USD."
        return error(ErrorCode.MAX_COST, cost, **way_out)
    return None


def _turns(run: Run) -> int:
    """Return the turns of this Run's own; those that a fork took over do not count."""
    answer = last_answer(run)
    if answer is None or answer.number <= run.copied_steps:
        return 0
    copied = run.steps[run.copied_steps - 1].turn if run.copied_steps else 0
    return answer.turn - copied


def _going_in_circles(run: Run) -> RunError | None:
    allowed = run.limits.max_identical_calls
    if allowed is None or len(run.tool_calls) < allowed:
        return None
    latest = run.tool_calls[-1]
    # What a person said may lead out of the circle: it counts from there on.
    told = run.follow_ups[-1].after_step if run.follow_ups else 0
    begun = max(run.resumed_step, told)
    since = [call for call in run.tool_calls[-allowed:] if call.model_step > begun]
    same = sum(1 for _ in takewhile(lambda call: _is_same(call, latest), reversed(since)))
    if same < allowed:
        return None
    return error(
        ErrorCode.MAX_IDENTICAL_CALLS,
        f"The model called {latest.name!r} {same} times in a row with the same arguments and "
        "got the same result.",
    )


def _content(call: ToolCall) -> list[str]:
    return [file.sha256 for file in call.files]


def _is_same(call: ToolCall, other: ToolCall) -> bool:
    if call.name != other.name or call.result != other.result or _content(call) != _content(other):
        return False
    return call.arguments == other.arguments or (
        json.loads(call.arguments) == json.loads(other.arguments)
    )
