"""Asking the workflow of a Session for something, and its answer or refusal in our words."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.client.workers import require_worker
from perdure.runs.contract import RunRequest
from perdure.runs.errors import (
    EngineUnavailable,
    ErrorCode,
    IdempotencyConflict,
    InvalidRequest,
    NoWorker,
    PerdureError,
    QueueFull,
    RunAlreadyExists,
    RunNotResumable,
    SessionBusy,
    SessionLimitReached,
    SessionNotFound,
)
from perdure.runs.run import Run
from perdure.runs.strict_json import strict_json
from perdure.sessions import contract
from perdure.sessions.admission import StartRequest
from perdure.sessions.contract import ResumeRequest, SessionRequest, StartedRun
from perdure.workflows.session import SessionWorkflow
from perdure.workflows.visible import SESSION

ANSWER_WITHIN_S = 30.0
"""How long a Session may take to answer: a worker that died is replaced within that."""
CATCH_UP_S = 10.0
"""How long a Session may take to notice that its Run has ended."""
LOOK_EVERY_S = 0.05

T = TypeVar("T")

REFUSALS: dict[str, Callable[..., PerdureError]] = {
    ErrorCode.SESSION_LIMIT: SessionLimitReached,
    ErrorCode.SESSION_NOT_FOUND: SessionNotFound,
    ErrorCode.QUEUE_FULL: QueueFull,
    ErrorCode.IDEMPOTENCY_CONFLICT: IdempotencyConflict,
    ErrorCode.RUN_ALREADY_EXISTS: RunAlreadyExists,
    ErrorCode.RUN_NOT_RESUMABLE: RunNotResumable,
    ErrorCode.PROVIDER_REFUSED_REQUEST: InvalidRequest,
}


def starting(client: Client, task_queue: str, request: SessionRequest) -> Any:
    """Return the operation that starts a Session where there is none."""
    return WithStartWorkflowOperation(
        SessionWorkflow.run,
        request,
        id=contract.workflow_id(request.session_id),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=_attributes(request.session_id),
        static_summary=_summary(request.session_id),
    )


def _attributes(session_id: str) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(SESSION, session_id)])


def _summary(session_id: str) -> str:
    return f"Session {session_id}"


async def create(client: Client, task_queue: str, request: SessionRequest) -> None:
    """Start a Session that is not to exist yet.

    Raises:
        InvalidRequest: When the id is taken.
        EngineUnavailable: When Temporal does not answer.
    """
    try:
        await client.start_workflow(
            SessionWorkflow.run,
            request,
            id=contract.workflow_id(request.session_id),
            task_queue=task_queue,
            search_attributes=_attributes(request.session_id),
            static_summary=_summary(request.session_id),
        )
    except WorkflowAlreadyStartedError as exc:
        raise InvalidRequest(
            f"There is a Session {request.session_id!r}.", hint="Choose another id."
        ) from exc
    except RPCError as exc:
        raise follow.translated(exc, None) from exc


async def start_run(client: Client, task_queue: str, request: StartRequest) -> StartedRun:
    """Start a Run in its Session, which is started where there is none.

    A Session learns a moment after everybody else that its Run has ended; that it is still busy
    with it is not taken for an answer.

    Raises:
        SessionBusy: When a Run is going on, and this one is not to wait.
        QueueFull: When too many wait.
        SessionLimitReached: When the Session has used what it may use.
        IdempotencyConflict: When the key was used with another request.
        RunAlreadyExists: When the id was used before.
        NoWorker: When nothing would pick the Run up.
        EngineUnavailable: When Temporal does not answer.
    """
    await require_worker(client, task_queue)
    clock = asyncio.get_running_loop().time
    until = clock() + CATCH_UP_S
    while True:
        try:
            return await _started(client, task_queue, request)
        except SessionBusy as exc:
            if clock() > until or not await _has_ended(client, exc.active_run_id):
                raise
        await asyncio.sleep(LOOK_EVERY_S)


async def _started(client: Client, task_queue: str, request: StartRequest) -> StartedRun:
    session_id = request.start.session_id or ""
    operation = starting(client, task_queue, SessionRequest(session_id=session_id))
    return await answered(
        session_id,
        client.execute_update_with_start_workflow(
            contract.START_RUN_UPDATE,
            request,
            start_workflow_operation=operation,
            result_type=StartedRun,
        ),
    )


async def resume_run(client: Client, run: Run, request: RunRequest) -> None:
    """Let the latest Run of a Session go on.

    Raises:
        SessionNotFound: When the Session is gone.
        SessionBusy: When another Run is going on.
        RunNotResumable: When another Run has followed.
        NoWorker: When nothing answers.
    """
    session_id = run.session_id or ""
    handle = client.get_workflow_handle_for(SessionWorkflow.run, contract.workflow_id(session_id))
    asked = ResumeRequest(request=request)
    await answered(session_id, handle.execute_update(contract.RESUME_RUN_UPDATE, asked))


async def answered(session_id: str, answer: Awaitable[T]) -> T:
    """Return what a Session answers.

    Raises:
        PerdureError: What it refuses with, in our words.
        NoWorker: When it does not answer in time.
        EngineUnavailable: When Temporal does not answer.
    """
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return await answer
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as exc:
        raise NoWorker(
            f"Session {session_id!r} did not answer within {ANSWER_WITHIN_S:g} s.",
            hint="Its worker may have died; ask again, with the same idempotency key.",
        ) from exc
    except WorkflowUpdateFailedError as exc:
        raise refusal(session_id, exc.cause) from exc
    except RPCError as exc:
        raise missing(exc, session_id) from exc


def refusal(session_id: str, cause: BaseException | None) -> PerdureError:
    """Return what a Session refused with, as it was before it crossed the wire."""
    if not isinstance(cause, ApplicationError):
        return EngineUnavailable(f"Session {session_id!r} did not answer: {cause}.")
    details = cause.details[0] if cause.details else {}
    hint = details.get("hint", "")
    if cause.type == ErrorCode.SESSION_BUSY:
        return SessionBusy(cause.message, active_run_id=details["active_run_id"], hint=hint)
    made = REFUSALS.get(cause.type or "")
    if made is not None:
        return made(cause.message, hint=hint)
    if cause.type == "AcceptedUpdateCompletedWorkflow":
        return SessionNotFound(f"Session {session_id!r} ended at this very moment.")
    return PerdureError(f"Session {session_id!r} refused: {cause.message}", hint=hint)


def missing(exc: RPCError, session_id: str) -> PerdureError:
    """Return Temporal's refusal in our words: a Session that has ended is none."""
    if exc.status is RPCStatusCode.NOT_FOUND and "namespace" not in exc.message.lower():
        return SessionNotFound(
            f"There is no Session {session_id!r}, or it has ended.",
            hint="`perdure sessions list` shows those there are.",
        )
    return follow.translated(exc, None)


def digest(*asked: Any) -> str:
    """Return the name of a request by its content."""
    text = b"\n".join(strict_json(each) for each in asked)
    return hashlib.sha256(text).hexdigest()[:32]


async def _has_ended(client: Client, run_id: str) -> bool:
    try:
        described = await follow.describe(client, run_id)
    except PerdureError:
        return False
    return described.status is not WorkflowExecutionStatus.RUNNING
