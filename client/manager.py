"""`RunManager`: start Runs, follow them, find them, stop them."""

import secrets
from collections.abc import AsyncIterator, Mapping

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from perdure.client import follow
from perdure.client.listing import RunFilter, RunList, list_runs
from perdure.client.workers import require_worker
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.runs import contract
from perdure.runs.contract import RunRequest
from perdure.runs.errors import ErrorCode, InvalidRequest, RunAlreadyExists
from perdure.runs.events import ContextBundle, Event, RunStart
from perdure.runs.ids import is_valid_id
from perdure.runs.limits import MAX_INPUT_BYTES, Limits, Timeouts
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.workflows.run import RunWorkflow
from perdure.workflows.visible import AGENT, SESSION, STATUS

SUMMARY_CHARS = 100
"""Of the input, in the one line that the Temporal UI shows; it refuses more than 400 bytes."""


class RunManager:
    """A client for Runs. Needs Temporal, and for reading no worker.

    Args:
        client: Connected with `perdure.engine.converter.data_converter`.
        task_queue: Where workers take Runs from.
    """

    def __init__(self, client: Client, task_queue: str = contract.DEFAULT_TASK_QUEUE) -> None:
        self.client = client
        self.task_queue = task_queue

    @classmethod
    async def connect(cls, settings: Settings | None = None) -> "RunManager":
        """Connect as the environment says.

        Raises:
            EngineUnavailable: When no Temporal server answers.
        """
        return cls(await connect(), (settings or Settings()).task_queue)

    async def start_run(  # noqa: PLR0913 - keyword-only: the call is the request
        self,
        agent: str,
        input: str,
        *,
        run_id: str | None = None,
        session_id: str | None = None,
        context: ContextBundle | None = None,
        limits: Limits | None = None,
        timeouts: Timeouts | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Start a Run and return its id, at once.

        *Idempotency*: with a `run_id` of yours, a second start is refused, not executed.

        Args:
            agent: Name of an agent that the workers have.
            input: What the user says.
            run_id: Chosen by us when not given.
            session_id: The conversation that the Run belongs to.
            context: Earlier messages and variables.
            limits: Over the agent's own.
            timeouts: Over the agent's own.
            metadata: Kept with the Run, for you.

        Raises:
            InvalidRequest: When the input is empty or too large, or a name unusable.
            NoWorker: When nothing would pick the Run up.
            RunAlreadyExists: When `run_id` was used before.
            EngineUnavailable: When Temporal does not answer.
        """
        start = RunStart(
            agent=_checked_id("agent", agent),
            input=without_lone_surrogates(input),
            session_id=_checked_id("session", session_id) if session_id else None,
            context=context or ContextBundle(),
            limits=limits or Limits(),
            timeouts=timeouts or Timeouts(),
            metadata=dict(metadata or {}),
        )
        _check_size(start)
        chosen = _checked_id("Run", run_id or f"run_{secrets.token_hex(10)}")
        await require_worker(self.client, self.task_queue)
        try:
            await self.client.start_workflow(
                RunWorkflow.run,
                RunRequest(start=start),
                id=chosen,
                task_queue=self.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                search_attributes=_attributes(start),
                static_summary=f"{agent}: {start.input[:SUMMARY_CHARS]}",
            )
        except WorkflowAlreadyStartedError as exc:
            raise RunAlreadyExists(
                f"A Run {chosen!r} was started before.",
                hint=f"Follow it: `perdure watch {chosen}`.",
            ) from exc
        except RPCError as exc:
            raise follow.translated(exc, None) from exc
        return chosen

    async def execute_run(
        self,
        agent: str,
        input: str,
        *,
        limits: Limits | None = None,
    ) -> AsyncIterator[Event]:
        """Start a Run and yield its Events until the end; the last one carries the Run.

        *Cancellation*: stopping to iterate does nothing to the Run.

        Raises:
            PerdureError: As `start_run` and `events`.
        """
        run_id = await self.start_run(agent, input, limits=limits)
        async for event in self.events(run_id):
            yield event

    def events(self, run_id: str, starting_after: int = -1) -> AsyncIterator[Event]:
        """Yield the Events of a Run, past and future, until its end.

        Args:
            run_id: Which Run.
            starting_after: Sequence number of the last Event you have; -1 for all.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When the server stays away for a minute.
        """
        return follow.follow(self.client, run_id, starting_after)

    async def get_run(self, run_id: str) -> Run:
        """Return the Run as it stands, running or closed; no worker is asked.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        return await follow.latest(self.client, run_id)

    async def pending_steps(self, run_id: str) -> list[follow.PendingStep]:
        """Return the Steps of a Run that are under way: attempt, partial text, last failure.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        return await follow.pending_steps(self.client, run_id)

    async def wait(self, run_id: str) -> Run:
        """Return the Run once it has ended.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When the server stays away for a minute.
        """
        async for _ in self.events(run_id):
            pass
        return await self.get_run(run_id)

    async def list_runs(
        self, chosen: RunFilter | None = None, *, limit: int = 20, cursor: str | None = None
    ) -> RunList:
        """Return a page of Runs, newest first.

        Temporal's visibility store is a second or so behind; `get_run` is not.

        Raises:
            InvalidRequest: When the cursor is not one of ours.
            EngineUnavailable: When Temporal does not answer.
        """
        try:
            return await list_runs(self.client, chosen or RunFilter(), limit, cursor)
        except RPCError as exc:
            if exc.status is RPCStatusCode.INVALID_ARGUMENT:
                raise InvalidRequest(f"Temporal refused the query: {exc.message}") from exc
            raise follow.translated(exc, None) from exc

    async def cancel(self, run_id: str, reason: str = "") -> Run:
        """Ask a Run to stop, and return it as it stands then.

        What is in flight is told and brings back what it has; nothing new starts. A Run that
        has ended is returned unchanged.

        *Idempotency*: asking twice is asking once.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        try:
            await self.client.get_workflow_handle(run_id).cancel(reason=reason)
        except RPCError as exc:
            # A closed workflow is "not found" to a cancel request; describing it tells which.
            if exc.status is not RPCStatusCode.NOT_FOUND:
                raise follow.translated(exc, run_id) from exc
        return await self.get_run(run_id)


def _checked_id(what: str, given: str) -> str:
    if not is_valid_id(given):
        raise InvalidRequest(
            f"{given[:80]!r} can't name a {what}.",
            hint="Use 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit.",
        )
    return given


def _check_size(start: RunStart) -> None:
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


def _attributes(start: RunStart) -> TypedSearchAttributes:
    pairs = [
        SearchAttributePair(STATUS, RunStatus.PENDING.value),
        SearchAttributePair(AGENT, start.agent),
    ]
    if start.session_id is not None:
        pairs.append(SearchAttributePair(SESSION, start.session_id))
    return TypedSearchAttributes(pairs)
