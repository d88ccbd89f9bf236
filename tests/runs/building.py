"""Small Runs, built by folding Events, for tests of the pure core."""

from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.runs import events, record
from perdure.runs.decide import CallModel, next_turn
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.events import Event
from perdure.runs.messages import wire
from perdure.runs.run import Run
from perdure.runs.start import RunStart
from perdure.runs.steps import ModelReply, RequestedCall, ToolReply
from perdure.runs.transcript import advance, assistant_message, since_last_answer
from perdure.runs.usage import ModelUsage

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(second: int) -> datetime:
    """Return a moment of a simulated Run."""
    return START + timedelta(seconds=second)


def pending(text: str = "Go.", **start: Any) -> Run:
    """Return a Run that no worker has picked up yet."""
    return Run.begin(record.queued("r1", RunStart(agent="helper", input=text, **start), at(0)))


def running(text: str = "Go.", **start: Any) -> Run:
    """Return a Run that a worker has picked up."""
    run = pending(text, **start)
    return run.apply(record.started(run, at(1)))


def asking(run: Run) -> Run:
    """Return the Run with the model call of its next turn under way."""
    return run.apply(record.model_step_started(run, at(2), CallModel(next_turn(run))))


def ended_step(run: Run, step: int, outcome: ModelReply | ToolReply | RunError) -> Run:
    """Return the Run with one of its Steps ended."""
    return run.apply(record.step_ended(run, at(3), step, outcome))


def answered(run: Run, reply: ModelReply) -> Run:
    """Return the Run after one whole model Step, marked as a worker marks it."""
    marked = with_mark(run, reply)
    return ended_step(asking(run), len(run.steps) + 1, marked)


def with_mark(run: Run, reply: ModelReply) -> ModelReply:
    """Return a reply with the mark that the worker gives it: the transcript, then the reply."""
    mark, new = since_last_answer(run)
    said = assistant_message(reply.said, reply.calls)
    for message in (*new, said):
        mark = advance(mark, wire(message))
    return reply.model_copy(update={"mark": mark})


def executed(run: Run, call_id: str, outcome: ToolReply | RunError) -> Run:
    """Return the Run after one whole tool Step."""
    started = record.tool_step_started(run, at(4), "look", call_id)
    return ended_step(run.apply(started), started.step, outcome)


def reply(text: str | None = None, *calls: RequestedCall, **fields: Any) -> ModelReply:
    """Return a model's reply that used 10 + 2 tokens and cost a quarter."""
    used = ModelUsage(model="m", input_tokens=10, output_tokens=2, model_calls=1, cost=0.25)
    return ModelReply(**({"model": "m", "text": text, "calls": calls, "usage": used} | fields))


def wanted(call_id: str, **fields: Any) -> RequestedCall:
    """Return a tool call that can be executed."""
    return RequestedCall(call_id=call_id, name="look", arguments="{}", **fields)


def rejected(call_id: str) -> RequestedCall:
    """Return a tool call that can't be executed."""
    return wanted(call_id, rejection=error(ErrorCode.TOOL_NOT_FOUND))


def moves(run: Run) -> dict[str, Event]:
    """Return, for each status, the Event that would bring the Run there."""
    stamp = run.stamp(at(9))
    why = error(ErrorCode.INTERNAL)
    return {
        "pending": events.RunQueued(**stamp, start=RunStart(agent="helper", input="Again.")),
        "running": events.RunStarted(**stamp),
        "completed": events.RunCompleted(**stamp, stop_reason="end_turn", output="Done."),
        "failed": events.RunFailed(**stamp, stop_reason="error", error=why),
        "cancelled": events.RunCancelled(**stamp, stop_reason="user_cancel", reason="Enough."),
        "timeout": events.RunTimedOut(**stamp, stop_reason="deadline", error=why),
    }
