"""How an AG-UI run ends: with an outcome, an error, or with what people are to decide."""

from typing import Any

from perdure.gateway.streaming.ag_ui.messages import called
from perdure.gateway.streaming.ag_ui.wire import Json, event
from perdure.runs import gate
from perdure.runs.actions import Action
from perdure.runs.run import Run
from perdure.runs.status import RunStatus

OURS = "perdure"
"""Where our own facts stand in an event's metadata."""

APPROVAL_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "note": {"type": "string", "description": "The model reads it."},
    },
    "required": ["approved"],
}
EDITED: Json = {"type": "object", "description": "Replaces all the arguments of the call."}


def is_asking(run: Run) -> bool:
    """Tell whether nothing goes on until people decide something."""
    waits = run.waiting_on
    asks = waits is not None and bool(waits.action_ids)
    return asks and run.status is RunStatus.RUNNING and run.current_step is None


def interrupts(run: Run) -> list[Json]:
    """Return what people are to decide."""
    return [_interrupt(run, action) for action in gate.open_actions(run)]


def ending(run: Run, ids: Json) -> Json:
    """Return the last event of a Run that has ended.

    Args:
        run: With its end.
        ids: Thread and run, as the client knows them.
    """
    told: Json = {"run_id": run.run_id, "status": run.status.value, "stop_reason": run.stop_reason}
    if run.error is not None:
        told["error"] = run.error.model_dump(mode="json")
    more: Json = {"usage": _usage(run), "metadata": {OURS: told | {"total_cost": run.total_cost}}}
    if run.status is RunStatus.COMPLETED or _is_limit(run):
        result = run.output if run.output_parsed is None else run.output_parsed
        more["outcome"] = {"type": "success"}
        return event("RUN_FINISHED", run.completed_at, **ids, result=result, **more)
    code, message = _failure(run)
    return event("RUN_ERROR", run.completed_at, message=message, code=code, **more)


def _is_limit(run: Run) -> bool:
    return run.status is RunStatus.FAILED and (run.stop_reason or "").startswith("max_")


def _failure(run: Run) -> tuple[str, str]:
    why = str(run.error) if run.error is not None else ""
    if run.status is RunStatus.CANCELLED:
        reason = run.cancel.reason if run.cancel is not None else ""
        return "cancelled", why or f"The Run was cancelled. {reason}".strip()
    if run.status is RunStatus.TIMEOUT:
        return "timeout", why or "The Run took longer than it may."
    return (run.error.code.value if run.error is not None else "internal"), why or "The Run failed."


def _usage(run: Run) -> list[Json] | None:
    return [
        {
            "model": each.model,
            "inputTokens": each.input_tokens,
            "outputTokens": each.output_tokens,
            "totalTokens": each.total_tokens,
            "reasoningTokens": each.output_tokens_details.reasoning_tokens,
            "cachedInputTokens": each.input_tokens_details.cached_tokens,
            "cacheWriteInputTokens": each.input_tokens_details.cache_write_tokens,
        }
        for each in run.usage.by_model
    ] or None


def _interrupt(run: Run, action: Action) -> Json:
    asked: dict[str, Any] = {
        "id": f"{run.run_id}/{action.action_id}",
        "reason": _reason(action),
        "message": action.reason or _question(action),
        "responseSchema": _schema(action),
        "metadata": {OURS: action.model_dump(mode="json", exclude={"resolution"})},
    }
    if action.expires_at is not None:
        asked["expiresAt"] = action.expires_at.isoformat()
    if action.call_id is not None:
        # The latest: some providers use the same ids again in every turn.
        ids = [id for id, call in called(run) if call.call_id == action.call_id]
        asked["toolCallId"] = ids[-1]
    return asked


def _question(action: Action) -> str:
    if action.about != "call":
        return f"Approve the {action.about} of {action.name}?"
    return f"Approve {action.name}({action.arguments[: gate.SHOWN_CHARS]})?"


def _reason(action: Action) -> str:
    if action.kind == "input":
        return "input_required"
    return "confirmation" if action.call_id is None else "tool_call"


def _schema(action: Action) -> Json:
    if action.kind == "input":
        answer: Json = {"enum": list(action.choices)} if action.choices else {}
        properties = {"answer": {"type": "string"} | answer}
        return {"type": "object", "properties": properties, "required": ["answer"]}
    if action.about != "call":
        return APPROVAL_SCHEMA
    edited = APPROVAL_SCHEMA["properties"] | {"editedArgs": EDITED}
    return APPROVAL_SCHEMA | {"properties": edited}
