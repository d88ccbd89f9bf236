"""What the workflow asks of an activity, made of the Run as it stands."""

import json
from typing import Any

from perdure.runs import gate
from perdure.runs.contract import ModelRequest, RunRequest, ToolRequest
from perdure.runs.decide import CallModel
from perdure.runs.inputs import unchecked
from perdure.runs.limit_rules import left
from perdure.runs.limits import MAX_DELTA_BYTES, Terms, Timeouts
from perdure.runs.messages import REFER_FROM_BYTES, canonical_json, digest, sent
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, RunStart, SessionShare
from perdure.runs.steps import ToolCall
from perdure.runs.transcript import cut, messages_up_to, since_last_answer


def model_request(run: Run, call: CallModel) -> ModelRequest:
    """Return the input of the model Step that has just started."""
    after, new = since_last_answer(run)
    told = tuple(sent(message) for message in new)
    small = sum(len(each.model_dump_json()) for each in told) <= MAX_DELTA_BYTES
    own = Terms(
        limits=run.limits,
        timeouts=run.timeouts,
        on_limit=run.on_limit,
        on_unknown=run.on_unknown,
    )
    return ModelRequest(
        agent=run.agent,
        step=len(run.steps),
        turn=call.turn,
        after=after,
        messages=told if small else None,
        purpose=call.purpose,
        model=call.model,
        chosen_model=run.chosen_model if run.chosen_model != call.model else None,
        summarise=messages_up_to(run, cut(run) or 0) if call.purpose == "compact" else 0,
        limit=call.limit,
        terms=None if run.settled else own,
        timeouts=run.timeouts if run.settled else Timeouts(),
        max_output_bytes=run.limits.max_output_bytes,
        depth=run.depth,
        unchecked=unchecked(run).count,
        session_id=run.session_id,
        **_schema(run),
    )


def child_request(run: Run, call: ToolCall) -> RunRequest:
    """Return the input of the Run of another agent, which the tool Step that starts now is.

    It may use an equal part of what is left here: the calls of one turn run side by side.
    """
    asked: dict[str, Any] = json.loads(gate.executed_arguments(call))
    siblings = [each for each in gate.latest_calls(run) if each.policy.kind == "agent"]
    start = RunStart(
        agent=call.policy.target or "",
        input=str(asked.get("input", "")),
        timeouts=Timeouts(run_s=call.policy.timeout_s),
        on_unknown=run.on_unknown,
        parent_run_id=run.run_id,
        parent_call_id=call.call_id,
        part_of=run.span,
        depth=run.depth + 1,
        share=SessionShare(
            context=ContextBundle(variables=run.context.variables),
            budget=left(run, max(1, len(siblings))),
        ),
    )
    return RunRequest(start=start)


def _schema(run: Run) -> dict[str, Any]:
    """Return what says which schema the output has to fit, where the caller gave one."""
    if run.output_schema is None:
        return {}
    wired = canonical_json(run.output_schema)
    own = run.steps[run.copied_steps : -1]
    if len(wired) < REFER_FROM_BYTES or all(step.kind != "model" for step in own):
        return {"output_schema": run.output_schema}
    return {"output_schema_digest": digest(wired)}


def tool_request(run: Run, call: ToolCall) -> ToolRequest:
    """Return the input of the tool Step that has just started."""
    return ToolRequest(
        agent=run.agent,
        step=len(run.steps),
        turn=run.turn,
        call_id=call.call_id,
        name=call.name,
        arguments=gate.executed_arguments(call),
        idempotency_key=f"{run.run_id}:{call.model_step}:{call.call_id}",
        variables=run.context.variables,
        effect=call.policy.effect,
        approval=gate.approved(run.run_id, call),
        session_id=run.session_id,
    )
