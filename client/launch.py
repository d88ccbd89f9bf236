"""Starting a Run: in a Session or by itself; a new one, one that is resumed, a fork."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict, Unpack

from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from perdure.client import asking, follow, history
from perdure.client.files import placed
from perdure.client.outputs import OutputSchema, checked_schema
from perdure.client.starting import checked, checked_id, checked_key
from perdure.client.workers import require_worker
from perdure.engine.tracing import current_span
from perdure.runs import record
from perdure.runs.contract import REQUEST_MEMO, RunRequest
from perdure.runs.errors import IdempotencyConflict, RunAlreadyExists
from perdure.runs.given_file import File, checked_files
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle, RunStart
from perdure.sessions.admission import OnBusy, StartRequest
from perdure.sessions.contract import StartedRun
from perdure.workflows.run import RunWorkflow
from perdure.workflows.starting import start_options


@dataclass(frozen=True)
class Launch:
    """What is started.

    Attributes:
        run_id: The workflow id.
        request: The workflow's input.
        run: The Run as it stands at its first moment.
        digest: Of what was asked for with an idempotency key, if it was.
    """

    run_id: str
    request: RunRequest
    run: Run
    digest: str = ""


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        start: What the Run starts with, checked.
        run_id: Its id, where the caller has chosen one.
        key: Idempotency key.
        on_busy: What happens when another Run of its Session is going on.
        files: What its input comes with; `start` names them, and does not say where they are.
        id_prefix: What its id begins with, where we choose it.
    """

    start: RunStart
    run_id: str | None = None
    key: str | None = None
    on_busy: OnBusy = "reject"
    files: tuple[File, ...] = ()
    id_prefix: str = ""


class RunOptions(TypedDict, total=False):
    """Options of a Run, as `RunManager.start_run` has them."""

    run_id: str | None
    files: Sequence[File]
    context: ContextBundle | None
    model: str | None
    limits: Limits | None
    on_limit: OnLimit | None
    on_unknown: OnUnknown | None
    timeouts: Timeouts | None
    metadata: Mapping[str, str] | None
    output_schema: OutputSchema | None
    on_busy: OnBusy
    idempotency_key: str | None
    id_prefix: str


def asked_for(
    agent: str, text: str, session_id: str | None, **options: Unpack[RunOptions]
) -> Asked:
    """Return what is asked for, checked.

    Raises:
        InvalidRequest: When the input is empty, or something too large or no JSON, or a name
            unusable.
    """
    run_id, key = options.get("run_id"), options.get("idempotency_key")
    files = checked_files(options.get("files") or ())
    given = RunStart(
        agent=checked_id("agent", agent),
        input=text,
        files=tuple(file.reference().unplaced for file in files),
        session_id=checked_id("session", session_id) if session_id else None,
        context=options.get("context") or ContextBundle(),
        model=options.get("model"),
        limits=options.get("limits") or Limits(),
        on_limit=options.get("on_limit"),
        on_unknown=options.get("on_unknown"),
        timeouts=options.get("timeouts") or Timeouts(),
        metadata=dict(options.get("metadata") or {}),
        output_schema=checked_schema(options.get("output_schema")),
    )
    return Asked(
        checked(given),
        run_id=checked_id("Run", run_id) if run_id else None,
        key=checked_key(key) if key is not None else None,
        on_busy=options.get("on_busy", "reject"),
        files=files,
        id_prefix=options.get("id_prefix", ""),
    )


async def launch(client: Client, task_queue: str, launched: Launch) -> None:
    """Start the workflow.

    *Idempotency*: a Run of that id is never started twice; only one that ended without
    completing is gone on with, and only when that is asked for.

    Raises:
        NoWorker: When nothing would pick the Run up.
        RunAlreadyExists: When the id is taken.
        EngineUnavailable: When Temporal does not answer.
    """
    options = start_options(launched.run, launched.request.resumption)
    if launched.digest:
        options["memo"] = {REQUEST_MEMO: launched.digest}
    await require_worker(client, task_queue)
    try:
        await client.start_workflow(
            RunWorkflow.run,
            launched.request,
            id=launched.run_id,
            task_queue=task_queue,
            **options,
        )
    except WorkflowAlreadyStartedError as exc:
        raise RunAlreadyExists(
            f"A Run {launched.run_id!r} was started before.",
            hint=f"Follow it: `perdure watch {launched.run_id}`.",
        ) from exc
    except RPCError as exc:
        raise follow.translated(exc, None) from exc


async def start(client: Client, task_queue: str, asked: Asked) -> StartedRun:
    """Start a Run: in its Session, if it has one, or by itself.

    A Run without a Session has its key in its id, so that Temporal itself sees to it that there
    is one only, for as long as it keeps the Run.

    Raises:
        PerdureError: As `launch`, and for a Session as `asking.start_run`.
    """
    start, key = asked.start, asked.key
    digest = asking.digest(start, asked.on_busy, asked.run_id) if key else ""
    chosen = _id_of(key) if key and start.session_id is None else new_id()
    run_id = asked.run_id or checked_id("Run", asked.id_prefix + chosen)
    files, part_of = await placed(client, asked.files, run_id), current_span()
    start = start.model_copy(update={"files": files, "part_of": part_of})
    if start.session_id is not None:
        request = StartRequest(
            run_id=run_id,
            start=start,
            on_busy=asked.on_busy,
            key=key or "",
            digest=digest,
        )
        return await asking.start_run(client, task_queue, request)
    run = Run.begin(record.queued(run_id, start, datetime.now(UTC)))
    try:
        await launch(client, task_queue, Launch(run_id, RunRequest(start=start), run, digest))
    except RunAlreadyExists:
        if not key:
            raise
        await _require_same(client, run_id, key, digest)
        return StartedRun(run_id=run_id, how="replayed")
    return StartedRun(run_id=run_id, how="begun")


async def _require_same(client: Client, run_id: str, key: str, digest: str) -> None:
    for execution in await history.first_executions(client, run_id):
        described = await client.get_workflow_handle(run_id, run_id=execution).describe()
        known = await described.memo_value(REQUEST_MEMO, None)
        if known is not None and known != digest:
            raise IdempotencyConflict(
                f"The key {key!r} was used for Run {run_id!r}, with another request.",
                hint="Use a new key for a new request.",
            )
        if known is not None:
            return
    raise RunAlreadyExists(f"A Run {run_id!r} was started before, with no key.")


def _id_of(key: str) -> str:
    return f"run_{hashlib.sha256(key.encode()).hexdigest()[:20]}"


def new_id() -> str:
    """Return an id for a Run."""
    return f"run_{secrets.token_hex(10)}"
