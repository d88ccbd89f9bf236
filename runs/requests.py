"""What the workflow asks of an activity, made of the Run as it stands."""

from perdure.runs.contract import ModelRequest, ToolRequest
from perdure.runs.decide import CallModel
from perdure.runs.limits import MAX_DELTA_BYTES, Terms, Timeouts
from perdure.runs.messages import sent
from perdure.runs.run import Run
from perdure.runs.steps import ToolCall
from perdure.runs.transcript import cut, messages_up_to, since_last_answer


def model_request(run: Run, call: CallModel) -> ModelRequest:
    """Return the input of the model Step that has just started."""
    after, new = since_last_answer(run)
    told = tuple(sent(message) for message in new)
    small = sum(len(each.model_dump_json()) for each in told) <= MAX_DELTA_BYTES
    own = Terms(limits=run.limits, timeouts=run.timeouts, on_limit=run.on_limit)
    return ModelRequest(
        agent=run.agent,
        step=len(run.steps),
        turn=call.turn,
        after=after,
        messages=told if small else None,
        purpose=call.purpose,
        model=call.model,
        summarise=messages_up_to(run, cut(run) or 0) if call.purpose == "compact" else 0,
        limit=call.limit,
        terms=None if run.settled else own,
        timeouts=run.timeouts if run.settled else Timeouts(),
        max_output_bytes=run.limits.max_output_bytes,
    )


def tool_request(run: Run, call: ToolCall) -> ToolRequest:
    """Return the input of the tool Step that has just started."""
    return ToolRequest(
        agent=run.agent,
        step=len(run.steps),
        turn=run.turn,
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        idempotency_key=f"{run.run_id}:{call.model_step}:{call.call_id}",
        variables=run.context.variables,
    )
