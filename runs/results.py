"""What the Run of another agent comes to, as the result of the tool call that it is."""

from perdure.runs.contract import RunResult
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_RESULT_BYTES
from perdure.runs.steps import ToolReply, error_text
from perdure.runs.usage import Usage


def child_reply(run_id: str, result: RunResult) -> ToolReply:
    """Return what a Run that completed brings."""
    how = f"; the whole output: perdure get {run_id}"
    return ToolReply(text=shortened(result.output.encode(), how), usage=result.usage)


def failed_child_reply(run_id: str, why: RunError, usage: Usage) -> ToolReply:
    """Return what a Run brings that did not complete: the model is told why."""
    if why.code in (ErrorCode.CANCELLED, ErrorCode.TERMINATED):
        told = error(ErrorCode.CANCELLED, f"The agent's Run {run_id} was cancelled.")
    else:
        said = f"The agent's Run {run_id} failed ({why.code}): {why.message}"
        told = error(ErrorCode.AGENT_FAILED, said, details={"code": why.code.value})
    return ToolReply(text=error_text(told), error=told, usage=usage)


def not_started(run_id: str) -> RunError:
    """Return why there is no such Run: its id is taken."""
    return error(ErrorCode.RUN_ALREADY_EXISTS, f"There is a Run {run_id!r} already.")


def shortened(raw: bytes, notice: str = "") -> str:
    """Cut a text that is too large for the model in the middle, and say so.

    Args:
        raw: The text, as UTF-8.
        notice: Where the rest is.
    """
    if len(raw) <= MAX_RESULT_BYTES:
        return raw.decode()
    half = MAX_RESULT_BYTES // 2
    head, tail = raw[:half].decode(errors="ignore"), raw[-half:].decode(errors="ignore")
    return f"{head}\n[… {len(raw) - 2 * half} of {len(raw)} bytes left out{notice} …]\n{tail}"
