"""Asking the workflow of a Session for something, and its answer or refusal in our words."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow, reports
from perdure.client.patience import ANSWER_WITHIN_S, in_time
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
    SessionWaitingForAction,
)
from perdure.runs.run import Run
from perdure.runs.strict_json import strict_json
from perdure.sessions import contract
from perdure.sessions.admission import StartRequest
from perdure.sessions.contract import (
    ConfigureRequest,
    ResumeRequest,
    SessionReport,
    SessionRequest,
    StartedRun,
)
from perdure.workflows.session import SessionWorkflow
from perdure.workflows.visible import SESSION

AGAIN_AFTER_S = 0.2
"""After which Temporal is asked again that has too much to do for this Session."""

T = TypeVar("T")
Ask = Callable[[], Awaitable[T]]
"""Asks once; asked anew, it asks again."""

REFUSALS: dict[str, Callable[..., PerdureError]] = {
    ErrorCode.SESSION_LIMIT: SessionLimitReached,
    ErrorCode.SESSION_NOT_FOUND: SessionNotFound,
    ErrorCode.QUEUE_FULL: QueueFull,
    ErrorCode.IDEMPOTENCY_CONFLICT: IdempotencyConflict,
    ErrorCode.RUN_ALREADY_EXISTS: RunAlreadyExists,
    ErrorCode.RUN_NOT_RESUMABLE: RunNotResumable,
    ErrorCode.PROVIDER_REFUSED_REQUEST: InvalidRequest,
}


def _starting(client: Client, task_queue: str, request: SessionRequest) -> Any:
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

    Raises:
        SessionBusy: When a Run is going on, and this one is not to wait.
        SessionWaitingForAction: The same, when that one waits for a person.
        QueueFull: When too many wait.
        SessionLimitReached: When the Session has used what it may use.
        IdempotencyConflict: When the key was used with another request.
        RunAlreadyExists: When the id was used before.
        NoWorker: When nothing would pick the Run up.
        EngineUnavailable: When Temporal does not answer.
    """
    await require_worker(client, task_queue)
    session_id = request.start.session_id or ""

    asked = partial(_with_start, client, task_queue, session_id)
    start: Ask[StartedRun] = partial(asked, contract.START_RUN_UPDATE, request, StartedRun)
    try:
        return await caught_up(client, lambda: answered(session_id, start))
    except SessionBusy as exc:
        asks = await _asks(client, exc.active_run_id)
        if asks:
            raise SessionWaitingForAction(exc, asks) from exc
        raise


async def _asks(client: Client, run_id: str) -> tuple[str, ...]:
    """Return what people are to decide for a Run; nothing where that can't be told."""
    try:
        waits = (await follow.latest(client, run_id)).waiting_on
    except PerdureError:
        return ()
    return waits.action_ids if waits is not None else ()


async def configure(
    client: Client, task_queue: str, session_id: str, request: ConfigureRequest
) -> SessionReport:
    """Change a Session, which begins with this where there is none.

    Raises:
        NoWorker: When nothing answers.
        EngineUnavailable: When Temporal does not answer.
    """
    asked = partial(_with_start, client, task_queue, session_id)
    change: Ask[SessionReport] = partial(asked, contract.CONFIGURE_UPDATE, request, SessionReport)
    return await answered(session_id, change)


async def _with_start(
    client: Client, task_queue: str, session_id: str, update: str, request: object, kind: type[T]
) -> T:
    """Ask a Session, which begins with this where there is none.

    One that ends at this very moment lets another one begin.
    """
    for last in (False, False, True):
        operation = _starting(client, task_queue, SessionRequest(session_id=session_id))
        try:
            answer: T = await client.execute_update_with_start_workflow(
                update, request, start_workflow_operation=operation, result_type=kind
            )
        except RPCError as exc:
            if last or not reports.is_missing(exc):
                raise
        else:
            return answer
        await asyncio.sleep(AGAIN_AFTER_S)
    raise AssertionError("the last one returns or raises")


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
    resume: Ask[None] = partial(handle.execute_update, contract.RESUME_RUN_UPDATE, asked)
    await caught_up(client, lambda: answered(session_id, resume))


async def caught_up(client: Client, ask: Ask[T]) -> T:
    """Return the answer of a Session that knows how things are.

    It learns a moment after everybody else that its Run has ended; that it is still busy with
    it is not taken for an answer.

    Raises:
        PerdureError: What it refuses with.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + reports.CATCH_UP_S
    while True:
        try:
            return await ask()
        except SessionBusy as exc:
            if clock() > until or not await reports.has_ended(client, exc.active_run_id):
                raise
        await asyncio.sleep(reports.LOOK_EVERY_S)


async def answered(session_id: str, ask: Ask[T]) -> T:
    """Return what a Session answers.

    Temporal lets few ask one Session at a time; it is asked until it lets us.

    Raises:
        PerdureError: What it refuses with, in our words.
        NoWorker: When it does not answer in time.
        EngineUnavailable: When Temporal does not answer.
    """
    try:
        return await in_time(_when_let(ask))
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as exc:
        raise NoWorker(
            f"Session {session_id!r} did not answer within {ANSWER_WITHIN_S:g} s.",
            hint="Its worker may have died; ask again, a start with the same idempotency key.",
        ) from exc
    except WorkflowUpdateFailedError as exc:
        raise refusal(session_id, exc.cause) from exc
    except RPCError as exc:
        if exc.status is RPCStatusCode.FAILED_PRECONDITION:
            raise NoWorker(
                f"Session {session_id!r} can't answer: {exc.message}",
                hint="Start a worker, or see in its log what fails; the Session goes on then.",
            ) from exc
        raise reports.missing(exc, session_id) from exc


async def _when_let(ask: Ask[T]) -> T:
    while True:
        try:
            return await ask()
        except RPCError as exc:
            # Aborted: the server had not handed it to the Session, and has forgotten it.
            aborted = exc.status is RPCStatusCode.UNAVAILABLE and "aborted" in exc.message
            if exc.status is not RPCStatusCode.RESOURCE_EXHAUSTED and not aborted:
                raise
        await asyncio.sleep(AGAIN_AFTER_S)


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


def digest(*asked: Any) -> str:
    """Return the name of a request by its content."""
    text = b"\n".join(strict_json(each) for each in asked)
    return hashlib.sha256(text).hexdigest()[:32]
