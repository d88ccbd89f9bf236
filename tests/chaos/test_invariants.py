"""Each rule finds what it is there for: a perfect record, broken in one place."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perdure.runs.errors import ErrorCode, error
from perdure.runs.status import RunStatus
from tests.chaos.evidence import Evidence, RunTrace, StepTrace
from tests.chaos.invariants import Violation, lost_tokens_are_told, violations
from tests.chaos.ledger import Line
from tests.chaos.perfect import BEGAN, PID, perfect
from tests.chaos.plan import Fault, PlannedFault, Size, planned
from tests.chaos.report import figures
from tests.chaos.workers import Life

PLAN = planned(7, Size(runs=2, long_every=0))
RUN = PLAN.runs[0]
UNSAFE = next(call.call_id for call in RUN.calls if call.effect == "unsafe")
KEYED = next(call.call_id for call in RUN.calls if call.effect == "keyed")
LOST = error(ErrorCode.WORKER_LOST)
UNKNOWN = error(ErrorCode.OUTCOME_UNKNOWN)


def with_trace(seen: Evidence, **changes: Any) -> Evidence:
    first, *others = seen.runs
    return replace(seen, runs=[replace(first, **changes), *others])


def with_run(seen: Evidence, **changes: Any) -> Evidence:
    run = seen.runs[0].run
    assert run is not None
    return with_trace(seen, run=run.model_copy(update=changes))


def with_call(seen: Evidence, call_id: str, **changes: Any) -> Evidence:
    run = seen.runs[0].run
    assert run is not None
    calls = [
        call.model_copy(update=changes) if call.call_id == call_id else call
        for call in run.tool_calls
    ]
    return with_run(seen, tool_calls=tuple(calls))


def with_step(seen: Evidence, number: int, **changes: Any) -> Evidence:
    steps = [
        replace(step, **changes) if step.number == number else step for step in seen.runs[0].steps
    ]
    return with_trace(seen, steps=steps)


def step_of(seen: Evidence, call_id: str) -> StepTrace:
    run = seen.runs[0].run
    assert run is not None
    number = next(call.step for call in run.tool_calls if call.call_id == call_id)
    return next(step for step in seen.runs[0].steps if step.number == number)


def without_lines(seen: Evidence, call_id: str) -> Evidence:
    lines = [ln for ln in seen.lines if (ln.run, ln.call) != (RUN.run_id, call_id)]
    return replace(seen, lines=lines)


def line(call_id: str, at: float, pid: int = PID) -> Line:
    return Line(RUN.run_id, call_id, "unsafe", pid, 1, at)


def with_last_request(seen: Evidence, **changes: Any) -> Evidence:
    mine = [n for n, request in enumerate(seen.requests) if request.run == RUN.run_id]
    requests = list(seen.requests)
    requests[mine[-1]] = replace(requests[mine[-1]], **changes)
    return replace(seen, requests=requests)


def unread(seen: Evidence) -> Evidence:
    return replace(seen, runs=[RunTrace(RUN.run_id, None), *seen.runs[1:]])


def effect_again(seen: Evidence) -> Evidence:
    return replace(seen, lines=[*seen.lines, line(UNSAFE, BEGAN)])


def effect_after_the_end(seen: Evidence) -> Evidence:
    ended_at = step_of(seen, UNSAFE).ended_at
    assert ended_at is not None
    moved = without_lines(seen, UNSAFE)
    return replace(moved, lines=[*moved.lines, line(UNSAFE, ended_at + 0.1)])


def request_after_the_end(seen: Evidence) -> Evidence:
    return replace(
        seen,
        requests=[*seen.requests, replace(seen.requests[1], at=BEGAN + 999, is_answer=False)],
    )


def lost_before_all_attempts(seen: Evidence) -> Evidence:
    failed = with_call(seen, KEYED, error=LOST)
    return with_step(failed, step_of(seen, KEYED).number, outcome="timed_out", attempt=2)


def nothing_repeated(seen: Evidence) -> Evidence:
    return replace(seen, requests=[r for r in seen.requests if r.tokens is not None])


def forgotten_result(seen: Evidence) -> Evidence:
    messages = seen.requests[-1].messages
    return with_last_request(seen, messages=[*messages[:-2], messages[-1]])


def fault_missing(seen: Evidence) -> Evidence:
    at_a_time = [fault.id for fault in PLAN.faults if fault.at_s is not None]
    return replace(seen, happened=seen.happened - set(at_a_time[: len(PLAN.faults) // 8 + 1]))


BROKEN: list[tuple[str, str, Callable[[Evidence], Evidence]]] = [
    ("a Run that can not be read", "every_run_ends_with_the_right_answer", unread),
    (
        "a Run still running",
        "every_run_ends_with_the_right_answer",
        lambda seen: with_run(seen, status=RunStatus.RUNNING),
    ),
    (
        "a failed Run",
        "every_run_ends_with_the_right_answer",
        lambda seen: with_run(seen, status=RunStatus.FAILED),
    ),
    (
        "a wrong answer",
        "every_run_ends_with_the_right_answer",
        lambda seen: with_run(seen, output="5 entries"),
    ),
    (
        "a wrong result",
        "each_call_has_its_result",
        lambda seen: with_call(seen, KEYED, result="-1"),
    ),
    (
        "a call that failed for no reason",
        "each_call_has_its_result",
        lambda seen: with_call(seen, UNSAFE, error=UNKNOWN),
    ),
    ("a call given up too early", "each_call_has_its_result", lost_before_all_attempts),
    (
        "a call that is missing",
        "each_call_has_its_result",
        lambda seen: with_run(seen, tool_calls=seen.runs[0].run.tool_calls[1:]),  # type: ignore[union-attr]
    ),
    (
        "a Step scheduled in two executions",
        "no_step_is_asked_for_twice",
        lambda seen: with_step(seen, 2, schedulings=2),
    ),
    ("an effect after the end", "no_ended_step_is_executed", effect_after_the_end),
    ("a request after the end", "no_ended_step_is_executed", request_after_the_end),
    ("an effect twice", "effects_are_not_doubled_or_lost", effect_again),
    (
        "an effect that nobody asked for",
        "effects_are_not_doubled_or_lost",
        lambda seen: replace(seen, lines=[*seen.lines, line("t9c9", BEGAN)]),
    ),
    (
        "a result without its effect",
        "effects_are_not_doubled_or_lost",
        lambda seen: without_lines(seen, UNSAFE),
    ),
    (
        "a keyed effect that is lost",
        "effects_are_not_doubled_or_lost",
        lambda seen: without_lines(seen, KEYED),
    ),
    (
        "tokens that no answer reported",
        "tokens_are_those_reported",
        lambda seen: with_last_request(seen, tokens=(7, 7)),
    ),
    (
        "tokens counted twice",
        "tokens_are_those_reported",
        lambda seen: with_run(
            seen,
            usage=seen.runs[0].run.usage.plus_call(seen.runs[0].run.steps[0].usage),  # type: ignore[union-attr,arg-type]
        ),
    ),
    ("a result forgotten", "every_request_continues_the_last", forgotten_result),
    (
        "a request before the results are there",
        "every_request_continues_the_last",
        lambda seen: with_last_request(seen, messages=seen.requests[-1].messages[:-1]),
    ),
    (
        "two readers that differ",
        "all_readers_agree",
        lambda seen: with_trace(seen, problems=["run.turn: 1 is not 2"]),
    ),
    (
        "a malformed request",
        "requests_are_valid",
        lambda seen: replace(seen, malformed=["messages[1]: …"]),
    ),
    (
        "a worker that crashed",
        "only_planned_deaths",
        lambda seen: replace(seen, lives=[*seen.lives, Life(5, 1, BEGAN, BEGAN, 1)]),
    ),
    ("more than a few faults that never happened", "all_faults_happened", fault_missing),
    ("faults without consequences", "all_faults_happened", nothing_repeated),
    (
        "no worker killed",
        "all_faults_happened",
        lambda seen: replace(seen, lives=[Life(PID, 0, BEGAN)]),
    ),
]


def rules(found: list[Violation]) -> set[str]:
    return {each.rule for each in found}


def test_a_perfect_record_breaks_no_rule() -> None:
    assert violations(perfect(PLAN)) == []


@pytest.mark.parametrize(
    ("rule", "breaking"), [(rule, how) for _, rule, how in BROKEN], ids=[b[0] for b in BROKEN]
)
def test_a_rule_finds_what_breaks_it(rule: str, breaking: Callable[[Evidence], Evidence]) -> None:
    assert rule in rules(violations(breaking(perfect(PLAN))))


def test_a_violation_names_the_run_and_its_place_in_the_history() -> None:
    broken = with_step(perfect(PLAN), 2, schedulings=2)
    [found] = violations(broken)
    assert (found.run, found.where) == (RUN.run_id, "execution first, event 20")


def test_a_stopped_worker_may_end_what_it_had_begun() -> None:
    seen = effect_after_the_end(perfect(PLAN))
    ended_at = step_of(seen, UNSAFE).ended_at or 0.0
    [life] = seen.lives
    stopped = replace(life, stops=[(ended_at - 12, ended_at + 0.05)])
    assert violations(replace(seen, lives=[stopped])) == []
    too_late = replace(life, stops=[(ended_at + 0.02, ended_at + 0.05)])
    assert rules(violations(replace(seen, lives=[too_late]))) == {"no_ended_step_is_executed"}


def test_an_unsafe_call_whose_worker_died_may_be_unknown_and_nothing_else() -> None:
    seen = perfect(PLAN)
    number = step_of(seen, UNSAFE).number
    seen = without_lines(with_step(seen, number, outcome="timed_out"), UNSAFE)
    unknown = with_call(seen, UNSAFE, error=UNKNOWN)
    assert rules(violations(unknown)) == set()
    lost = with_call(seen, UNSAFE, error=LOST)
    assert rules(violations(lost)) == {
        "each_call_has_its_result",
        "effects_are_not_doubled_or_lost",
    }


def test_tokens_of_a_lost_answer_must_be_told() -> None:
    seen = perfect(PLAN)
    cut = replace(seen.requests[1], tokens=None, is_answer=False)
    seen = replace(seen, requests=[*seen.requests, cut])
    assert list(lost_tokens_are_told(seen, RUN, seen.runs[0])) != []
    usage = seen.runs[0].run.usage.model_copy(update={"complete": False})  # type: ignore[union-attr]
    told = with_run(seen, usage=usage)
    assert list(lost_tokens_are_told(told, RUN, told.runs[0])) == []


def test_a_fault_that_another_one_forestalled_is_told_apart() -> None:
    kind = Fault.KILL_AFTER_RESULT
    missed = PlannedFault("missed", kind, run=RUN.run_id, call=UNSAFE)
    seen = perfect(replace(PLAN, faults=(missed,)))
    counts = {"planned": 1, "happened": 1, "forestalled": 0}
    assert figures(seen, [])["faults"] == {kind.value: counts}
    seen = replace(seen, happened=frozenset())
    assert figures(seen, [])["faults"] == {kind.value: counts | {"happened": 0}}
    seen = with_call(seen, UNSAFE, status="failed", error=UNKNOWN)
    assert figures(seen, [])["faults"] == {kind.value: counts | {"happened": 0, "forestalled": 1}}
