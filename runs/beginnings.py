"""How a Run begins: what it starts from, its wait for its turn in a Session, the turn itself."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.runs import files
from perdure.runs.events import RunQueued, RunStarted
from perdure.runs.limits import DEFAULT_QUEUE_S
from perdure.runs.messages import Message, UserMessage
from perdure.runs.start import Checkpoint, ContextBundle, RunStart, SessionShare
from perdure.runs.status import WaitingOn

if TYPE_CHECKING:
    from perdure.runs.run import Run


def chars(context: ContextBundle) -> int:
    """Return how many characters the messages of a context hold."""
    return sum(_chars(message) for message in context.messages)


def opened(start: RunStart) -> int:
    """Return how many characters a Run holds by what its caller gave."""
    return len(start.input) + files.chars(start.files) + chars(start.context)


def _chars(message: Message) -> int:
    given = message.files if isinstance(message, UserMessage) else ()
    return len(message.content or "") + files.chars(given)


def given(event: RunQueued) -> dict[str, Any]:
    """Return the fields of a Run at its first moment."""
    start, done = event.start, event.start.checkpoint or Checkpoint()
    told = start.input if done.told_input is None else done.told_input
    return {
        "run_id": event.run_id,
        "agent": start.agent,
        "session_id": start.session_id,
        "created_at": event.at,
        "last_progress_at": event.at,
        "input_message": start.input,
        "input_files": start.files,
        "model": start.model,
        "chosen_model": start.model,
        "context": start.context,
        "limits": start.limits,
        "timeouts": start.timeouts,
        "on_limit": start.on_limit,
        "on_unknown": start.on_unknown,
        "output_schema": start.output_schema,
        "depth": start.depth,
        "metadata": start.metadata,
        "parent_run_id": start.parent_run_id,
        "forked_from": start.forked_from,
        "part_of": start.part_of,
        "steps": done.steps,
        "tool_calls": done.tool_calls,
        "follow_ups": done.follow_ups,
        "compactions": done.compactions,
        "told_input": done.told_input,
        "turn": done.steps[-1].turn if done.steps else 0,
        "actions_asked": done.actions_asked,
        "copied_steps": len(done.steps),
        "resumed_step": len(done.steps),
        "waiting_on": queue(start, event.at),
        "transcript_chars": opened(start) + len(told) - len(start.input) + done.chars,
    }


def queue(start: RunStart, at: datetime) -> WaitingOn | None:
    """Return what a Run waits for that is to wait for its turn.

    Its position is its Session's to tell: it changes without the Run.
    """
    if not start.queued:
        return None
    patience = timedelta(seconds=start.timeouts.queue_s or DEFAULT_QUEUE_S)
    return WaitingOn(type="queue", since=at, expires_at=at + patience)


def begun(run: "Run", event: RunStarted) -> dict[str, Any]:
    """Return what changes when a Run begins to work.

    Its turn may come in the same moment as the end of its patience: then it has its turn.
    """
    changes: dict[str, Any] = {"started_at": event.at, "waiting_on": None}
    if run.cancel is not None and run.cancel.by == "queue":
        changes["cancel"] = None
    return changes | shared(run, event.share)


def shared(run: "Run", share: SessionShare | None) -> dict[str, Any]:
    """Return what changes by what a Session gives: the caller's own variables win."""
    if share is None:
        return {}
    context = ContextBundle(
        messages=share.context.messages + run.context.messages,
        variables=share.context.variables | run.context.variables,
    )
    return {
        "context": context,
        "budget": share.budget,
        "context_window": share.context_window,
        "transcript_chars": run.transcript_chars + chars(share.context),
    }
