"""Evidence of Runs in which everything went well although every planned fault happened."""

import json
from datetime import UTC, datetime

from perdure.agents.tool import ATTEMPTS
from perdure.runs.messages import wire
from perdure.runs.policy import ToolPolicy
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.steps import Step, ToolCall
from perdure.runs.transcript import messages
from perdure.runs.usage import ModelUsage, Usage
from tests.chaos.conversation import TOOLS, conclusion, prompt
from tests.chaos.evidence import Evidence, Request, RunTrace, StepTrace
from tests.chaos.ledger import Line
from tests.chaos.plan import Plan, PlannedCall, PlannedRun
from tests.chaos.workers import Life

BEGAN = 1_700_000_000.0
PID = 4321


def perfect(plan: Plan) -> Evidence:
    """Return what is seen when each Step was executed once, a second each."""
    runs = [perfect_run(planned) for planned in plan.runs]
    again = Request("elsewhere", 1, BEGAN, PID, (), is_answer=False)
    return Evidence(
        plan=plan,
        happened=frozenset(fault.id for fault in plan.faults),
        runs=[_trace(run) for run in runs],
        requests=[again, *(each for run in runs for each in _requests(run))],
        lines=[line for planned in plan.runs for line in _lines(planned)],
        lives=[Life(PID, 0, BEGAN, BEGAN + 1000, -9)],
    )


def perfect_run(planned: PlannedRun) -> Run:
    """Return the Run that a plan leads to when no call fails."""
    steps: list[Step] = []
    calls: list[ToolCall] = []
    usage = Usage()
    for turn, asked in enumerate((*planned.turns, ()), start=1):
        used = ModelUsage(input_tokens=1000 + turn, output_tokens=10, model_calls=1, model="m")
        usage = usage.plus_call(used)
        model = len(steps) + 1
        said = f"Turn {turn}." if asked else _output(planned)
        steps.append(_step(model, turn, text=said, usage=used))
        for call in asked:
            calls.append(_call(call, planned, model, len(steps) + 1))
            steps.append(_step(len(steps) + 1, turn, call_id=call.call_id))
    at = datetime.fromtimestamp(BEGAN, UTC)
    return Run(
        run_id=planned.run_id,
        agent="clerk",
        status=RunStatus.COMPLETED,
        created_at=at,
        last_progress_at=at,
        input_message=prompt(planned.run_id),
        steps=tuple(steps),
        tool_calls=tuple(calls),
        output=_output(planned),
        usage=usage,
    )


def _output(planned: PlannedRun) -> str:
    return conclusion((call.call_id, str(call.value)) for call in planned.calls)


def _step(number: int, turn: int, **more: object) -> Step:
    kind = "tool" if "call_id" in more else "model"
    known = {"number": number, "turn": turn, "kind": kind, "name": kind, "status": "completed"}
    return Step.model_validate(known | more)


def _call(call: PlannedCall, planned: PlannedRun, model: int, step: int) -> ToolCall:
    return ToolCall(
        call_id=call.call_id,
        name=TOOLS[call.effect],
        arguments=json.dumps({"run": planned.run_id, "entry": call.call_id}),
        model_step=model,
        step=step,
        status="completed",
        policy=ToolPolicy.model_validate(
            {"effect": call.effect, "max_attempts": ATTEMPTS[call.effect]}  # type: ignore[index]
        ),
        result=str(call.value),
    )


def _trace(run: Run) -> RunTrace:
    return RunTrace(
        run_id=run.run_id,
        run=run,
        steps=[
            StepTrace(
                number=step.number,
                is_model=step.kind == "model",
                execution="first",
                event=10 * step.number,
                schedulings=1,
                attempt=1,
                ended_at=BEGAN + step.number,
                outcome="completed",
            )
            for step in run.steps
        ],
        transcript=[json.loads(wire(message)) for message in messages(run)],
    )


def _requests(run: Run) -> list[Request]:
    whole = [json.loads(wire(message)) for message in messages(run)]
    ends = [n for n, message in enumerate(whole) if message["role"] == "assistant"]
    models = [step for step in run.steps if step.kind == "model"]
    return [
        Request(
            run=run.run_id,
            turn=step.turn,
            at=BEGAN + step.number - 0.5,
            pid=PID,
            messages=whole[:end],
            is_answer=True,
            tokens=(1000 + step.turn, 10),
            began=True,
        )
        for step, end in zip(models, ends, strict=True)
    ]


def _lines(planned: PlannedRun) -> list[Line]:
    run = perfect_run(planned)
    step_of = {call.call_id: call.step or 0 for call in run.tool_calls}
    return [
        Line(planned.run_id, c.call_id, c.effect, PID, 1, BEGAN + step_of[c.call_id] - 0.5)
        for c in planned.calls
    ]
