"""With what the workflow of a Run is started, be it by a client or by its Session."""

from datetime import timedelta
from typing import TypedDict

from perdure.runs.contract import CREATED_MEMO, RESUMED_MEMO, Resumption
from perdure.runs.limits import DEFAULT_QUEUE_S
from perdure.runs.run import Run
from perdure.workflows.visible import AGENT, SESSION, STATUS
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy

BACKSTOP = timedelta(seconds=30)
"""How much later than the Run's own timeout the server ends it, when no worker is alive to."""
SUMMARY_BYTES = 120
"""Of the input, in the one line that the Temporal UI shows. Temporal documents 400 bytes for it,
as JSON, which can double these; the agent's name takes up to 128."""


class StartOptions(TypedDict):
    """Options of Temporal's, under the names that clients and workflows have for them."""

    execution_timeout: timedelta | None
    id_reuse_policy: WorkflowIDReusePolicy
    search_attributes: TypedSearchAttributes
    memo: dict[str, str] | None
    static_summary: str


def start_options(run: Run, resumption: Resumption | None = None) -> StartOptions:
    """Return how a Run is started: never twice, and only to go on where it did not complete.

    Args:
        run: The Run as it stands at its first moment.
        resumption: That it goes on, if it does.
    """
    again, memo = WorkflowIDReusePolicy.REJECT_DUPLICATE, None
    if resumption is not None:
        again = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
        memo = {
            RESUMED_MEMO: resumption.first_execution,
            CREATED_MEMO: run.created_at.isoformat(),
        }
    return {
        "execution_timeout": _execution_timeout(run),
        "id_reuse_policy": again,
        "search_attributes": _attributes(run),
        "memo": memo,
        "static_summary": summary(run.agent, run.input_message),
    }


def summary(agent: str, text: str) -> str:
    """Return a Run in one line for the Temporal UI."""
    said = "".join(c if c.isprintable() else " " for c in text[:SUMMARY_BYTES])
    return f"{agent}: {said.encode()[:SUMMARY_BYTES].decode(errors='ignore')}"


def _execution_timeout(run: Run) -> timedelta | None:
    if run.timeouts.run_s is None:
        return None
    waits = run.waiting_on is not None and run.waiting_on.type == "queue"
    first = (run.timeouts.queue_s or DEFAULT_QUEUE_S) if waits else 0.0
    return timedelta(seconds=first + run.timeouts.run_s) + BACKSTOP


def _attributes(run: Run) -> TypedSearchAttributes:
    pairs = [
        SearchAttributePair(STATUS, run.status.value),
        SearchAttributePair(AGENT, run.agent),
    ]
    if run.session_id is not None:
        pairs.append(SearchAttributePair(SESSION, run.session_id))
    return TypedSearchAttributes(pairs)
