"""Results of tool calls, whole: also those of which the model saw only the ends."""

from temporalio.client import Client

from perdure.engine.stored_text import StoredTexts
from perdure.runs.errors import CallNotFound, InvalidRequest
from perdure.runs.run import Run
from perdure.runs.steps import ToolCall


async def whole_result(client: Client, run: Run, call_id: str) -> str:
    """Return what a tool call of a Run brought.

    Args:
        client: Connected with our data converter.
        run: The Run as it stands.
        call_id: The call's id, or the number of the Step that executed it.

    Raises:
        CallNotFound: When the Run has no such call.
        InvalidRequest: When the call has not ended.
        StorageUnavailable: When the whole result is not where this process looks for it.
    """
    call = _call_of(run, call_id)
    if call.result is None:
        raise InvalidRequest(
            f"The call {call_id!r} of Run {run.run_id!r} has no result: it is {call.status}.",
            hint="Ask again when it has ended.",
        )
    if call.full is None:
        return call.result
    return await StoredTexts(client.data_converter, client.namespace).read(call.full)


def _call_of(run: Run, call_id: str) -> ToolCall:
    # From the end: some providers use the same ids again in every turn.
    for call in reversed(run.tool_calls):
        if call.call_id == call_id:
            return call
    for call in run.tool_calls:
        if call.step is not None and str(call.step) == call_id:
            return call
    raise CallNotFound(
        f"Run {run.run_id!r} has no tool call {call_id[:80]!r}.",
        hint=f"`perdure get {run.run_id}` shows its Steps.",
    )
