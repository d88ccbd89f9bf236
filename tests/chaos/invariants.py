"""What must hold whatever happened: each rule reads the evidence and yields what breaks it.

No I/O; `test_invariants` feeds each rule a broken record.
"""

import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from perdure.engine.process import UNAVAILABLE
from perdure.runs.errors import ErrorCode
from perdure.runs.status import RunStatus
from perdure.runs.steps import ToolCall
from tests.chaos.conversation import conclusion, prompt
from tests.chaos.evidence import Evidence, Request, RunTrace, StepTrace
from tests.chaos.plan import PlannedCall, PlannedRun

ECHO_S = 30.0
"""How long after it goes on a stopped worker may still do what it had begun before."""
CLOCKS_S = 0.005
"""Between the server's timestamps and ours, both of this machine."""

EXPECTED_CODES = (None, 0, -signal.SIGKILL, -signal.SIGTERM, UNAVAILABLE)
"""Of workers: the last one when the server was away as they started."""


@dataclass(frozen=True)
class Violation:
    """One broken promise."""

    rule: str
    run: str
    where: str
    """In the history, where that is known."""
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.run or 'all Runs'} ({self.where or 'no place'}): {self.what}"


Found = Iterator[tuple[str, str]]
"""Place and what is wrong."""


def every_run_ends_with_the_right_answer(
    seen: Evidence, plan: PlannedRun, trace: RunTrace
) -> Found:
    run = trace.run
    if run is None:
        yield "", "it can not be read"
        return
    last = trace.steps[-1].place if trace.steps else ""
    if run.status is not RunStatus.COMPLETED:
        yield last, f"it is {run.status}, not completed: {run.error}"
        return
    right = conclusion((call.call_id, call.result or "") for call in run.tool_calls)
    if run.output != right:
        yield last, f"it answers {run.output!r}, right is {right!r}"
    steps = len(plan.calls) + len(plan.turns) + 1
    if [step.number for step in run.steps] != list(range(1, steps + 1)):
        yield last, f"it has Steps {[step.number for step in run.steps]}, planned are {steps}"


def each_call_has_its_result(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    calls = trace.run.tool_calls if trace.run else ()
    if [call.call_id for call in calls] != [call.call_id for call in plan.calls]:
        yield "", f"its calls are {[call.call_id for call in calls]}"
        return
    for call, planned in zip(calls, plan.calls, strict=True):
        place = _place(trace, call.step)
        if call.error is None:
            if call.result != str(planned.value):
                yield place, f"{call.call_id} gave {call.result!r}, not {planned.value}"
        elif not _may_fail(call, planned, _step(trace, call.step)):
            yield place, f"{call.call_id} ({planned.effect}) ended {call.error.code}"


def no_step_is_asked_for_twice(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    for step in trace.steps:
        if step.schedulings != 1:
            yield step.place, f"Step {step.number} was scheduled {step.schedulings} times"


def no_ended_step_is_executed(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    for what, at, pid, step in executions(seen, trace):
        if step.ended_at is None or at <= step.ended_at + CLOCKS_S:
            continue
        if not is_echo(seen, pid, at, step.ended_at):
            late = at - step.ended_at
            yield step.place, f"{what} {late:.3f} s after the end of Step {step.number}, by {pid}"


def effects_are_not_doubled_or_lost(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    counts = Counter(line.call for line in seen.lines if line.run == plan.run_id)
    calls = {call.call_id: call for call in trace.run.tool_calls} if trace.run else {}
    for planned in plan.calls:
        count = counts.pop(planned.call_id, 0)
        call = calls.get(planned.call_id)
        place = _place(trace, call.step if call else None)
        if planned.effect != "read" and count > 1:
            yield place, f"{planned.effect} {planned.call_id} had its effect {count} times"
        if count == 0 and call is not None and call.error is None and call.is_settled:
            yield place, f"{planned.call_id} has a result and had no effect"
        failed = call is not None and call.error is not None
        if count == 0 and failed and planned.effect == "unsafe" and not _is_unknown(call):
            yield place, f"{planned.call_id} had no effect, and is not {ErrorCode.OUTCOME_UNKNOWN}"
    if counts:
        yield "", f"effects of calls that it never asked for: {dict(counts)}"


def tokens_are_those_reported(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    if trace.run is None:
        return
    answers = _answers(seen, plan.run_id)
    total = {"input": 0, "output": 0, "calls": 0}
    for step in trace.run.steps:
        if step.kind != "model" or step.usage is None:
            continue
        tokens = (step.usage.input_tokens, step.usage.output_tokens)
        total["input"] += tokens[0]
        total["output"] += tokens[1]
        total["calls"] += 1
        if tokens not in [request.tokens for request in answers[step.turn]]:
            yield _place(trace, step.number), f"no answer to turn {step.turn} reported {tokens}"
    used = trace.run.usage
    counted = {"input": used.input_tokens, "output": used.output_tokens, "calls": used.model_calls}
    if total != counted:
        yield "", f"the Run counts {counted}, its Steps {total}"


def lost_tokens_are_told(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    if trace.run is None or not trace.run.usage.complete:
        return
    used = [step.usage for step in trace.run.steps if step.usage is not None]
    kept = [(usage.input_tokens, usage.output_tokens) for usage in used]
    for request in seen.requests:
        if request.run == plan.run_id and request.began and request.tokens not in kept:
            yield "", f"an answer to turn {request.turn} was lost, and its usage is called complete"


def every_request_continues_the_last(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    whole = trace.transcript
    if not whole or whole[0].get("content") != prompt(plan.run_id):
        yield "", "its transcript does not begin with its input"
        return
    for request in seen.requests:
        if request.run != plan.run_id:
            continue
        length = len(request.messages)
        if list(request.messages) != list(whole[:length]):
            yield "", f"a request for turn {request.turn} is no beginning of its transcript"
        elif length < len(whole) and whole[length]["role"] != "assistant":
            yield "", f"a request for turn {request.turn} lacks what came before the answer"


def all_readers_agree(seen: Evidence, plan: PlannedRun, trace: RunTrace) -> Found:
    for problem in trace.problems:
        yield "", problem


def requests_are_valid(seen: Evidence) -> Found:
    for problem in seen.malformed:
        yield "", problem


def only_planned_deaths(seen: Evidence) -> Found:
    for life in seen.lives:
        if life.code not in EXPECTED_CODES:
            yield "", f"worker {life.worker} (process {life.pid}) ended by itself: {life.code}"


MAY_BE_MISSED = 0.1
"""Part of the faults whose moment may not come: the last Runs can end before it."""


def all_faults_happened(seen: Evidence) -> Found:
    missing = list(_missing(seen))
    if len(missing) > MAY_BE_MISSED * len(seen.plan.faults):
        yield from missing
    if not any(request.tokens is None for request in seen.requests):
        yield "", "no request was ever repeated"
    deaths = sum(life.code == -9 for life in seen.lives)
    if not deaths:
        yield "", "no worker was ever killed"


def _missing(seen: Evidence) -> Found:
    traces = {trace.run_id: trace for trace in seen.runs}
    for fault in seen.plan.faults:
        if fault.id in seen.happened:
            continue
        trace = traces.get(fault.run or "")
        if trace and trace.run and trace.run.status is not RunStatus.COMPLETED:
            continue  # which is bad enough, and found by another rule
        calls = trace.run.tool_calls if trace and trace.run else ()
        call = next((call for call in calls if call.call_id == fault.call), None)
        if not _is_unknown(call):  # else the tool died, by another fault, before it ran
            yield "", f"{fault.kind} never happened ({fault.id})"


RunRule = Callable[[Evidence, PlannedRun, RunTrace], Found]

RUN_RULES: tuple[RunRule, ...] = (
    every_run_ends_with_the_right_answer,
    each_call_has_its_result,
    no_step_is_asked_for_twice,
    no_ended_step_is_executed,
    effects_are_not_doubled_or_lost,
    tokens_are_those_reported,
    every_request_continues_the_last,
    all_readers_agree,
    lost_tokens_are_told,
)
WHOLE_RULES: tuple[Callable[[Evidence], Found], ...] = (
    requests_are_valid,
    only_planned_deaths,
    all_faults_happened,
)


def violations(seen: Evidence) -> list[Violation]:
    """Return everything that is broken; an empty list when all promises were kept."""
    whole = [
        Violation(rule.__name__, "", where, what)
        for rule in WHOLE_RULES
        for where, what in rule(seen)
    ]
    return whole + _of_runs(seen, RUN_RULES)


def _of_runs(seen: Evidence, rules: Sequence[RunRule]) -> list[Violation]:
    traces = {trace.run_id: trace for trace in seen.runs}
    return [
        Violation(rule.__name__, plan.run_id, where, what)
        for plan in seen.plan.runs
        for rule in rules
        for where, what in rule(seen, plan, traces.get(plan.run_id) or RunTrace(plan.run_id, None))
    ]


def executions(seen: Evidence, trace: RunTrace) -> Iterator[tuple[str, float, int, StepTrace]]:
    """Yield each execution of a Step: what was seen, when, by which process, of which Step."""
    if trace.run is None:
        return
    steps = {step.number: step for step in trace.steps}
    of_turn = {step.turn: step.number for step in trace.run.steps if step.kind == "model"}
    of_call = {call.call_id: call.step for call in trace.run.tool_calls}
    for request in seen.requests:
        step = steps.get(of_turn.get(request.turn, 0))
        if request.run == trace.run_id and step is not None:
            yield "a request came", request.at, request.pid, step
    for line in seen.lines:
        step = steps.get(of_call.get(line.call) or 0)
        if line.run == trace.run_id and step is not None:
            yield f"{line.call} had its effect", line.at, line.pid, step


def is_echo(seen: Evidence, pid: int, at: float, ended_at: float) -> bool:
    """Tell whether a worker only went on with what it had begun before it was stopped."""
    return any(
        since <= ended_at + CLOCKS_S and until <= at <= until + ECHO_S
        for life in seen.lives
        if life.pid == pid
        for since, until in life.stops
    )


def _answers(seen: Evidence, run_id: str) -> dict[int, list[Request]]:
    answers: dict[int, list[Request]] = defaultdict(list)
    for request in seen.requests:
        if request.run == run_id and request.is_answer:
            answers[request.turn].append(request)
    return answers


def _step(trace: RunTrace, number: int | None) -> StepTrace | None:
    return next((step for step in trace.steps if step.number == number), None)


def _place(trace: RunTrace, number: int | None) -> str:
    step = _step(trace, number)
    return step.place if step else ""


def _is_unknown(call: ToolCall | None) -> bool:
    return (
        call is not None
        and call.error is not None
        and (call.error.code is ErrorCode.OUTCOME_UNKNOWN)
    )


def _may_fail(call: ToolCall, planned: PlannedCall, step: StepTrace | None) -> bool:
    """Tell whether workers' deaths explain the error: an unsafe tool has one attempt."""
    if call.error is None or step is None or step.outcome != "timed_out":
        return False
    if planned.effect == "unsafe":
        return call.error.code is ErrorCode.OUTCOME_UNKNOWN
    return call.error.code is ErrorCode.WORKER_LOST and step.attempt == call.policy.max_attempts
