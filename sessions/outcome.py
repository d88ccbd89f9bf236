"""What a Run leaves to its Session: what was said, what it used."""

from perdure.runs.errors import ErrorCode
from perdure.runs.frozen import Frozen
from perdure.runs.inputs import unchecked
from perdure.runs.messages import AssistantMessage, Message
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.transcript import last_executed, messages
from perdure.runs.usage import Usage


class RunOutcome(Frozen):
    """How a Run ended, as far as its Session is concerned."""

    run_id: str
    status: RunStatus
    began: bool = True
    """False when it never had its turn: then it leaves nothing."""
    messages: tuple[Message, ...] = ()
    """What the conversation has more by it."""
    replaces: bool = False
    """They stand for the whole conversation: the Run has compacted it."""
    rolled_back: bool = False
    taken: tuple[str, ...] = ()
    """Ids of the messages that reached it."""
    usage: Usage = Usage()
    context_window: int | None = None


def outcome(run: Run) -> RunOutcome:
    """Return what an ended Run leaves to its Session.

    What a model was saying when it was stopped is kept: the user has read it. One that never
    had its turn leaves nothing.
    """
    mode = run.cancel.mode if run.cancel is not None else None
    found = RunOutcome(
        run_id=run.run_id,
        status=run.status,
        began=run.started_at is not None,
        rolled_back=mode == "rollback",
        taken=tuple(each.message_id for each in run.follow_ups if each.message_id),
        usage=run.usage,
        context_window=run.context_window,
    )
    if run.started_at is None:
        return found
    is_compacted = run.compaction is not None
    said = said_by_end(run)
    new = said if is_compacted else said[len(run.context.messages) :]
    new = new[: len(new) - _refused(run)]
    return found.model_copy(update={"messages": tuple(new), "replaces": is_compacted})


def said_by_end(run: Run) -> list[Message]:
    """Return the conversation as it stands at the end of a Run, beginning with its context."""
    return [*messages(run), *_unfinished(run)]


def _refused(run: Run) -> int:
    """Return how many messages, at the end, no model is to read: a check, or a person, said so."""
    why = run.error
    if why is None or why.code is not ErrorCode.GUARDRAIL or why.details.get("about") != "input":
        return 0
    return unchecked(run).count


def _unfinished(run: Run) -> tuple[Message, ...]:
    last = last_executed(run)
    if last is None or last.kind != "model" or last.status == "completed":
        return ()
    if last.purpose == "compact" or not last.text:
        return ()
    return (AssistantMessage(content=last.text),)
