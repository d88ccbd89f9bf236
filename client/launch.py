"""Starting the workflow of a Run: a new one, one that is resumed, a fork."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from perdure.client import follow
from perdure.client.starting import summary
from perdure.client.workers import require_worker
from perdure.runs.contract import RunRequest
from perdure.runs.errors import RunAlreadyExists
from perdure.runs.run import Run
from perdure.workflows.run import RunWorkflow
from perdure.workflows.visible import AGENT, SESSION, STATUS

BACKSTOP = timedelta(seconds=30)
"""How much later than the Run's own timeout the server ends it, when no worker is alive to."""


@dataclass(frozen=True)
class Launch:
    """What is started.

    Attributes:
        run_id: The workflow id.
        request: The workflow's input.
        run: The Run as it stands at its first moment.
    """

    run_id: str
    request: RunRequest
    run: Run


async def launch(client: Client, task_queue: str, launched: Launch) -> None:
    """Start the workflow.

    *Idempotency*: a Run of that id is never started twice; only one that ended without
    completing is gone on with, and only when that is asked for.

    Raises:
        NoWorker: When nothing would pick the Run up.
        RunAlreadyExists: When the id is taken.
        EngineUnavailable: When Temporal does not answer.
    """
    run, resumption = launched.run, launched.request.resumption
    await require_worker(client, task_queue)
    limit_s = run.timeouts.run_s
    try:
        await client.start_workflow(
            RunWorkflow.run,
            launched.request,
            id=launched.run_id,
            task_queue=task_queue,
            execution_timeout=None if limit_s is None else timedelta(seconds=limit_s) + BACKSTOP,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
            if resumption is None
            else WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            search_attributes=_attributes(run),
            memo=None
            if resumption is None
            else {
                follow.RESUMED: resumption.first_execution,
                follow.CREATED: run.created_at.isoformat(),
            },
            static_summary=summary(run.agent, run.input_message),
        )
    except WorkflowAlreadyStartedError as exc:
        raise RunAlreadyExists(
            f"A Run {launched.run_id!r} was started before.",
            hint=f"Follow it: `perdure watch {launched.run_id}`.",
        ) from exc
    except RPCError as exc:
        raise follow.translated(exc, None) from exc


def new_id() -> str:
    """Return an id for a Run."""
    return f"run_{secrets.token_hex(10)}"


def _attributes(run: Run) -> TypedSearchAttributes:
    pairs = [
        SearchAttributePair(STATUS, run.status.value),
        SearchAttributePair(AGENT, run.agent),
    ]
    if run.session_id is not None:
        pairs.append(SearchAttributePair(SESSION, run.session_id))
    return TypedSearchAttributes(pairs)
