"""Starting the workflow of a Run: a new one, one that is resumed, a fork."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from perdure.client import follow
from perdure.client.workers import require_worker
from perdure.runs.contract import RunRequest
from perdure.runs.errors import ErrorCode, InvalidRequest, RunAlreadyExists
from perdure.runs.events import RunStart
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import MAX_INPUT_BYTES
from perdure.runs.run import Run
from perdure.workflows.run import RunWorkflow
from perdure.workflows.visible import AGENT, SESSION, STATUS

SUMMARY_CHARS = 100
"""Of the input, in the one line that the Temporal UI shows; it refuses more than 400 bytes."""
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
            static_summary=f"{run.agent}: {run.input_message[:SUMMARY_CHARS]}",
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


def checked_id(what: str, given: str) -> str:
    """Return a name that a person gave.

    Raises:
        InvalidRequest: When it is unusable.
    """
    if not is_valid_id(given):
        raise InvalidRequest(
            f"{given[:80]!r} can't name a {what}.",
            hint="Use 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit.",
        )
    return given


def check_size(start: RunStart) -> None:
    """Refuse what no Run can start with.

    Raises:
        InvalidRequest: When the input is empty or too large, or the context is no JSON.
    """
    if not start.input.strip():
        raise InvalidRequest("The input is empty.", hint="Say what the agent is to do.")
    try:
        size = len(start.model_dump_json())
    except (ValueError, ValidationError) as exc:
        raise InvalidRequest(f"The context is not JSON: {exc}.") from exc
    if size > MAX_INPUT_BYTES:
        raise InvalidRequest(
            f"The input with its context has {size:,} characters; {MAX_INPUT_BYTES:,} are allowed.",
            hint="Pass large data by reference, through a tool.",
            code=ErrorCode.PAYLOAD_TOO_LARGE,
        )


def _attributes(run: Run) -> TypedSearchAttributes:
    pairs = [
        SearchAttributePair(STATUS, run.status.value),
        SearchAttributePair(AGENT, run.agent),
    ]
    if run.session_id is not None:
        pairs.append(SearchAttributePair(SESSION, run.session_id))
    return TypedSearchAttributes(pairs)
