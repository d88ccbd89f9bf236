"""What an Event of a Run measures: a pure function of the Event and the Run around it.

What is measured of all Events of a Run adds up to what the Run says of itself, each thing once:
the Run of another agent measures itself, so what its caller takes over of it is left out; a fork's
copied Steps and the lives before a resumption were measured when they happened.
"""

from collections.abc import Iterable, Iterator

from perdure.runs import metrics
from perdure.runs.codes import ErrorCode
from perdure.runs.events import (
    EndBase,
    Event,
    RunResumed,
    RunStarted,
    StepCompleted,
    StepFailed,
)
from perdure.runs.metering import Measurement, Metric
from perdure.runs.run import Run
from perdure.runs.steps import Step
from perdure.runs.usage import ModelUsage

UNKNOWN_AGENT = "unknown"
PROVES_NOTHING = (
    ErrorCode.AGENT_NOT_FOUND,
    ErrorCode.CANCELLED,
    ErrorCode.INTERNAL,
    ErrorCode.STORAGE_UNAVAILABLE,
    ErrorCode.WORKER_LOST,
)
"""Ends of a model Step after which nobody knows whether there is such an agent."""
GEN_AI = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "openai"}
"""Of every model call: the convention's name for whoever speaks this protocol."""


def measures(before: Run, event: Event, after: Run) -> tuple[Measurement, ...]:
    """Return what an Event measures.

    Args:
        before: The Run that it happened to.
        event: What happened.
        after: The Run that came of it.
    """
    match event:
        case RunStarted():
            return (Measurement(metrics.RUNS_STARTED, 1), *_waited(before, event))
        case RunResumed():
            return (Measurement(metrics.RUNS_RESUMED, 1),)
        case StepCompleted() | StepFailed():
            checks = after.steps[len(before.steps) :]
            return tuple(_of_steps(before.agent, (after.steps[event.step - 1], *checks)))
        case EndBase():
            left = [step.number for step in before.steps if step.status == "running"]
            cut_off = _of_steps(before.agent, [after.steps[number - 1] for number in left])
            return (*cut_off, *_of_end(after))
        case _:
            return ()


def _waited(before: Run, event: RunStarted) -> Iterator[Measurement]:
    # Of others nothing is known: to a workflow, its first task is the moment of its start, however
    # long no worker came. That wait is the age of the task queue's backlog.
    if before.waiting_on is not None and before.waiting_on.type == "queue":
        yield Measurement(metrics.RUN_QUEUE, (event.at - before.created_at).total_seconds())


def _of_steps(agent: str, steps: Iterable[Step]) -> Iterator[Measurement]:
    for step in steps:
        kind = "agent" if step.child_run_id is not None else step.kind
        labels: dict[str, str] = {"kind": kind, "status": step.status}
        if step.error is not None:
            labels["error_type"] = step.error.code.value
        yield Measurement(metrics.STEPS, 1, labels)
        if step.attempt > 1 and step.kind != "check":
            yield Measurement(metrics.STEP_RETRIES, step.attempt - 1, {"kind": kind})
        if step.usage is not None:
            yield from _of_usage(agent, step.usage)


def _of_usage(agent: str, usage: ModelUsage) -> Iterator[Measurement]:
    named = {"gen_ai_agent_name": agent, "gen_ai_response_model": usage.model}
    tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
    for kind, count in tokens.items():
        if count:
            labels = GEN_AI | named | {"gen_ai_token_type": kind}
            yield Measurement(metrics.TOKEN_USAGE, count, labels)
    parts: dict[Metric, int] = {
        metrics.CACHED_TOKENS: usage.input_tokens_details.cached_tokens,
        metrics.REASONING_TOKENS: usage.output_tokens_details.reasoning_tokens,
        metrics.UNPRICED: usage.unpriced_calls,
    }
    for metric, count in parts.items():
        if count:
            yield Measurement(metric, count, {"agent": agent, "model": usage.model})
    if usage.cost or usage.model_calls > usage.unpriced_calls:
        yield Measurement(metrics.COST, usage.cost, {"agent": agent, "model": usage.model})


def _of_end(run: Run) -> Iterator[Measurement]:
    agent, status = agent_of(run), run.status.value
    reason = {"stop_reason": run.stop_reason.value if run.stop_reason is not None else ""}
    yield Measurement(metrics.RUNS_ENDED, 1, {"agent": agent, "status": status} | reason)
    began = run.resumed_at or run.started_at
    if began is None or run.completed_at is None:
        return  # its turn never came
    lasted = (run.completed_at - began).total_seconds()
    yield Measurement(metrics.RUN_DURATION, lasted, {"agent": agent, "status": status})
    earlier = run.steps[run.resumed_step - 1].turn if run.resumed_step else 0
    yield Measurement(metrics.RUN_TURNS, run.turn - earlier, {"agent": agent})


def agent_of(run: Run) -> str:
    """Return the agent of a Run, or `unknown`: its caller may have named one that there is not."""
    own = run.steps[run.copied_steps :]
    is_known = run.settled or run.first_agent is not None or any(_proves(step) for step in own)
    return run.agent if is_known else UNKNOWN_AGENT


def _proves(step: Step) -> bool:
    if step.kind != "model" or step.status == "running":
        return False
    return step.usage is not None or (
        step.error is not None and step.error.code not in PROVES_NOTHING
    )
