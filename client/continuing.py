"""Going on from a Run that there is: resuming it under its id, or forking another one from it."""

from typing import Any

from temporalio.client import Client

from perdure.client import asking, follow
from perdure.client.files import placed
from perdure.client.launch import Launch, launch
from perdure.client.outputs import checked_schema
from perdure.client.starting import checked_seconds
from perdure.client.workers import require_worker
from perdure.engine.tracing import current_span
from perdure.runs import record
from perdure.runs.contract import Resumption, RunRequest
from perdure.runs.decide import Finish, decide
from perdure.runs.errors import InvalidRequest, RunAlreadyExists, RunNotResumable, SessionNotFound
from perdure.runs.files import FileRef
from perdure.runs.fork import agent_at, checkpoint
from perdure.runs.frozen import Frozen
from perdure.runs.given_file import File, checked_files
from perdure.runs.limits import Limits, OnLimit, OnUnknown, Timeouts
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.run import Run
from perdure.runs.start import RunStart
from perdure.runs.status import RunStatus


async def resume(
    client: Client, task_queue: str, run_id: str, limits: Limits, timeouts: Timeouts
) -> Run:
    """Let an ended Run go on from its last good Step, and return it as it stands then.

    Raises:
        RunNotResumable: When it is open or completed, or would only fail again.
    """
    run = await follow.latest(client, run_id)
    description = await follow.describe(client, run_id)
    resumption = Resumption(
        first_execution=follow.first_execution(description),
        limits=limits,
        timeouts=checked_seconds(timeouts),
    )
    goes_on = _checked(run, resumption)
    request = RunRequest(carried=run, resumption=resumption)
    try:
        await _go_on(client, task_queue, Launch(run_id, request, goes_on))
    except RunAlreadyExists as exc:
        raise RunNotResumable(f"Run {run_id!r} goes on already.") from exc
    return await follow.latest(client, run_id)


async def _go_on(client: Client, task_queue: str, launched: Launch) -> None:
    """Start the new execution: in its Session, if that is still there."""
    if launched.run.session_id is not None:
        await require_worker(client, task_queue)
        try:
            await asking.resume_run(client, launched.run, launched.request)
        except SessionNotFound:
            pass
        else:
            return
    await launch(client, task_queue, launched)


def _checked(run: Run, resumption: Resumption) -> Run:
    if not run.status.is_terminal:
        raise RunNotResumable(f"Run {run.run_id!r} is {run.status}.", hint="It needs no resuming.")
    if run.status is RunStatus.COMPLETED:
        raise RunNotResumable(
            f"Run {run.run_id!r} is completed.",
            hint=f"Fork it: `perdure fork {run.run_id} --message …`.",
        )
    at = run.completed_at or run.last_progress_at
    goes_on = run.apply(record.resumed(run, at, resumption))
    after = decide(goes_on)
    if isinstance(after, Finish) and after.error is not None:
        raise RunNotResumable(
            f"Run {run.run_id!r} would only fail again: {after.error.message}",
            hint=after.error.hint,
        )
    return goes_on


class Fork(Frozen):
    """What is to be different in a fork; what is not given is as in the original."""

    step: int | None = None
    """The last Step that is taken over; the latest when not given."""
    message: str | None = None
    files: tuple[File, ...] = ()
    """What the message comes with, or the input in its place."""
    agent: str | None = None
    model: str | None = None
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    on_limit: OnLimit | None = None
    on_unknown: OnUnknown | None = None
    output_schema: dict[str, Any] | None = None


async def fork(client: Client, task_queue: str, run_id: str, new_id: str, changed: Fork) -> None:
    """Start a Run that begins where another one stood after one of its Steps.

    Raises:
        InvalidRequest: When there is no such Step, or nothing would be left to do.
    """
    if changed.message is not None and not (changed.message.strip() or changed.files):
        raise InvalidRequest("The message is empty.", hint="Say what is to be different.")
    checked_seconds(changed.timeouts)
    run = await follow.latest(client, run_id)
    files = await placed(client, checked_files(changed.files), new_id)
    start = forked_start(run, changed, files).model_copy(update={"part_of": current_span()})
    begun = Run.begin(record.queued(new_id, start, run.created_at))
    after = decide(begun.apply(record.started(begun, run.created_at)))
    if isinstance(after, Finish):
        raise InvalidRequest(
            f"A fork of Run {run_id!r} from its Step {len(begun.steps)} would have nothing to do.",
            hint="Give a message, or fork from an earlier Step.",
        )
    await launch(client, task_queue, Launch(new_id, RunRequest(start=start), begun))


def forked_start(run: Run, changed: Fork, files: tuple[FileRef, ...] = ()) -> RunStart:
    """Return what a fork of `run` starts with."""
    step = len(run.steps) if changed.step is None else changed.step
    before = agent_at(run, step)
    same_agent = changed.agent in (None, before)
    # Another agent brings limits of its own; one that a Run was handed over to has not.
    limits = changed.limits.over(run.limits) if same_agent else changed.limits
    timeouts = changed.timeouts.over(run.timeouts) if same_agent else changed.timeouts
    message = changed.message and without_lone_surrogates(changed.message)
    if message is None and files and step > 0:
        message = ""
    done = checkpoint(run, step, message, files)
    return RunStart(
        agent=changed.agent or before,
        input=message if message and step == 0 else run.input_message,
        files=files if files and step == 0 else run.input_files,
        model=changed.model or (run.model if same_agent and before == run.agent else None),
        on_limit=changed.on_limit or (run.on_limit if same_agent else None),
        on_unknown=changed.on_unknown or (run.on_unknown if same_agent else None),
        checkpoint=done if done.steps or done.follow_ups else None,
        context=run.context,
        limits=limits,
        timeouts=timeouts,
        metadata=run.metadata,
        output_schema=checked_schema(changed.output_schema) or run.output_schema,
        forked_from=run.run_id,
    )
