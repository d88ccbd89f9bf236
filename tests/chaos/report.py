"""What a chaos run showed: figures, and a table or JSON of them."""

import json
from collections import Counter
from dataclasses import asdict
from statistics import quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from perdure.runs.errors import ErrorCode
from tests.chaos.evidence import Evidence
from tests.chaos.invariants import Violation, executions, is_echo
from tests.chaos.plan import Fault, Plan


def figures(seen: Evidence, broken: list[Violation]) -> dict[str, Any]:
    """Return everything worth knowing, as JSON has it."""
    runs = [trace.run for trace in seen.runs if trace.run is not None]
    rules = Counter(each.rule for each in broken)
    calls = [call for run in runs for call in run.tool_calls if call.error is not None]
    return {
        "seed": seen.plan.seed,
        "ok": not broken,
        "took_s": round(seen.took_s, 1),
        "runs": {
            "planned": len(seen.plan.runs),
            "by_status": dict(Counter(run.status.value for run in runs)),
            "starts_refused": seen.starts_refused,
            "steps": sum(len(run.steps) for run in runs),
            "continued_as_new": sum(len(trace.continued_at) for trace in seen.runs),
        },
        "faults": _faults(seen),
        "deaths": sum(life.code == -9 for life in seen.lives),
        "requests": len(seen.requests),
        "requests_repeated": len(seen.requests) - sum(run.usage.model_calls for run in runs),
        "effects": len(seen.lines),
        "steps_executed_again": rules["no_ended_step_is_executed"]
        + rules["no_step_is_asked_for_twice"],
        "effects_wrong": rules["effects_are_not_doubled_or_lost"],
        "late_echoes": _echoes(seen),
        "outcome_unknown": sum(c.error.code is ErrorCode.OUTCOME_UNKNOWN for c in calls if c.error),
        "worker_lost": sum(c.error.code is ErrorCode.WORKER_LOST for c in calls if c.error),
        "recovery_s": recovery(seen),
        "violations": [asdict(each) for each in broken],
    }


def recovery(seen: Evidence) -> dict[str, float | int | None]:
    """Return how long after the death of a worker the next attempt of its model Steps began."""
    took: list[float] = []
    for life in seen.lives:
        if life.code != -9 or life.died is None:
            continue
        for request in seen.requests:
            if request.pid != life.pid or request.is_answer or request.at < life.died - 30:
                continue
            later = [
                r.at
                for r in seen.requests
                if (r.run, r.turn) == (request.run, request.turn) and r.at > request.at
            ]
            # An earlier next attempt means that this one had ended before the death.
            if later and min(later) > life.died:
                took.append(min(later) - life.died)
    if len(took) < 2:
        return {"count": len(took), "p50": took[0] if took else None, "p95": None}
    parts = quantiles(took, n=20, method="inclusive")
    return {"count": len(took), "p50": round(parts[9], 1), "p95": round(parts[18], 1)}


def _faults(seen: Evidence) -> dict[str, dict[str, int]]:
    planned = Counter(fault.kind for fault in seen.plan.faults)
    happened = Counter(fault.kind for fault in seen.plan.faults if fault.id in seen.happened)
    forestalled = _forestalled(seen)
    return {
        kind.value: {
            "planned": planned[kind],
            "happened": happened[kind],
            "forestalled": forestalled[kind],
        }
        for kind in Fault
        if planned[kind]
    }


def _forestalled(seen: Evidence) -> Counter[Fault]:
    """Count the faults of calls that another one hit first, and that may not be repeated."""
    unknown = {
        (run.run_id, call.call_id)
        for run in (trace.run for trace in seen.runs)
        if run is not None
        for call in run.tool_calls
        if call.error is not None and call.error.code is ErrorCode.OUTCOME_UNKNOWN
    }
    return Counter(
        fault.kind
        for fault in seen.plan.faults
        if fault.id not in seen.happened and (fault.run, fault.call) in unknown
    )


def _echoes(seen: Evidence) -> int:
    return sum(
        step.ended_at is not None and at > step.ended_at and is_echo(seen, pid, at, step.ended_at)
        for trace in seen.runs
        for _, at, pid, step in executions(seen, trace)
    )


def show_plan(plan: Plan, console: Console) -> None:
    """Print what is to happen, and when or where."""
    size = plan.size
    console.print(
        f"seed {plan.seed}: {size.runs} Runs of {size.steps} Steps (each {size.long_every}th of "
        f"three times as many) over {size.window_s:.0f} s, {size.workers} workers"
    )
    for fault in plan.faults:
        when = f"at {fault.at_s:.2f} s" if fault.at_s is not None else f"in {fault.id}"
        whom = "" if fault.worker is None else f" worker {fault.worker}"
        length = f" ({fault.for_s:g} s)" if fault.for_s else ""
        console.print(f"  {when}: {fault.kind}{whom}{length}")


def show(told: dict[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table("", "planned", "happened", title=f"Chaos, seed {told['seed']}")
    for kind, counts in told["faults"].items():
        table.add_row(kind, str(counts["planned"]), str(counts["happened"]))
    table.add_section()
    runs, back = told["runs"], told["recovery_s"]
    statuses = ", ".join(f"{count} {status}" for status, count in runs["by_status"].items())
    table.add_row("Runs", str(runs["planned"]), statuses)
    table.add_row("starts refused and repeated", "", str(runs["starts_refused"]))
    table.add_row("Steps", "", f"{runs['steps']}; {runs['continued_as_new']} continue-as-new")
    table.add_row("model requests", "", f"{told['requests']} ({told['requests_repeated']} again)")
    table.add_row("effects", "", f"{told['effects']}")
    table.add_row("workers killed", "", str(told["deaths"]))
    table.add_section()
    table.add_row("ended Steps executed again", "0", str(told["steps_executed_again"]))
    table.add_row("effects doubled or lost", "0", str(told["effects_wrong"]))
    table.add_row("late echoes of stopped workers", "", str(told["late_echoes"]))
    table.add_row("calls with outcome_unknown", "", str(told["outcome_unknown"]))
    table.add_row("calls whose worker died each time", "", str(told["worker_lost"]))
    table.add_row(
        "recovery of a model Step",
        "",
        f"p50 {back['p50']} s, p95 {back['p95']} s ({back['count']})",
    )
    table.add_row("took", "", f"{told['took_s']} s")
    console.print(table)
    for each in told["violations"]:
        console.print(
            f"VIOLATION {each['rule']}: {each['run']} ({each['where']}): {each['what']}",
            markup=False,
            soft_wrap=True,
        )


def as_json(told: dict[str, Any]) -> str:
    """Return the figures as one JSON object."""
    return json.dumps(told)
