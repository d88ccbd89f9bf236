"""`RunManager`: start Runs, follow them, find them, steer them, stop them."""

from collections.abc import AsyncIterator

from temporalio.client import Client

from perdure.client import changing, continuing, follow, history
from perdure.client.continuing import Fork
from perdure.client.files import Filing
from perdure.client.launch import new_id
from perdure.client.launching import Launching
from perdure.client.listing import RunFilter, RunList, list_runs
from perdure.client.live.run import LiveRun
from perdure.client.live.source import Heartbeats, Source, source_of
from perdure.client.overseeing import Overseeing
from perdure.client.results import whole_result
from perdure.client.sessions import SessionHandle, SessionList, list_sessions
from perdure.client.starting import checked_id
from perdure.client.tree import Branching
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.runs import contract
from perdure.runs.contract import CancelRequest
from perdure.runs.deltas import LiveEvent, Position
from perdure.runs.events import CancelMode, Event
from perdure.runs.limits import Limits, Timeouts
from perdure.runs.run import Run


class RunManager(Launching, Branching, Filing, Overseeing):
    """A client for Runs. Needs Temporal, and for reading no worker.

    Args:
        client: Connected with `perdure.engine.converter.data_converter`.
        task_queue: Where workers take Runs from.
        source: Where what Steps say before they end comes from; heartbeats by default.
    """

    def __init__(
        self,
        client: Client,
        task_queue: str = contract.DEFAULT_TASK_QUEUE,
        source: Source | None = None,
    ) -> None:
        self.client = client
        self.task_queue = task_queue
        self.source: Source = source or Heartbeats(client)

    @classmethod
    async def connect(cls, settings: Settings | None = None) -> "RunManager":
        """Connect as the environment says.

        Raises:
            ConfigurationError: When the storage for large data, or Redis, can't be used.
            EngineUnavailable: When no Temporal server answers.
        """
        chosen = settings or Settings.configured()
        client = await connect(chosen)
        return cls(client, chosen.task_queue, source_of(client, chosen))

    def session(self, session_id: str) -> SessionHandle:
        """Return a handle to a Session; it begins with its first Run.

        Raises:
            InvalidRequest: When the id can't name anything.
        """
        return SessionHandle(self.client, self.task_queue, session_id)

    async def list_sessions(
        self, *, limit: int = 20, cursor: str | None = None, id_prefix: str = ""
    ) -> SessionList:
        """Return a page of Sessions, newest first; with a prefix, those whose ids begin so.

        Raises:
            InvalidRequest: When the cursor is not one of ours.
            EngineUnavailable: When Temporal does not answer.
        """
        return await list_sessions(self.client, limit, cursor, id_prefix)

    async def execute_run(
        self, agent: str, input: str, *, limits: Limits | None = None
    ) -> AsyncIterator[LiveEvent]:
        """Start a Run and yield what happens until the end; the last Event carries the Run.

        Between the Events come deltas: words of the model, progress of tools.

        *Cancellation*: stopping to iterate does nothing to the Run.

        Raises:
            PerdureError: As `start_run` and `live_events`.
        """
        run_id = await self.start_run(agent, input, limits=limits)
        async for item in self.live_events(run_id):
            yield item

    def events(self, run_id: str, starting_after: int = -1) -> AsyncIterator[Event]:
        """Yield the Events of a Run, past and future, until its end.

        Args:
            run_id: Which Run.
            starting_after: Sequence number of the last Event you have; -1 for all.

        Raises:
            RunNotFound: When there is no such Run.
            EventsExpired: When Temporal has deleted the Events that would come next.
            EngineUnavailable: When the server stays away for a minute.
        """
        return history.follow(self.client, run_id, starting_after)

    async def live_events(
        self, run_id: str, position: Position | None = None
    ) -> AsyncIterator[LiveEvent]:
        """Yield the Events of a Run and, between them, what its Steps say before they end.

        Args:
            run_id: Which Run.
            position: What you have: `position_of` the last item that you got; none for all.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When the server stays away for a minute.
        """
        async with self.live(run_id) as live:
            async for item in live.read(position or Position()):
                if item is not None:
                    yield item

    def live(self, run_id: str) -> LiveRun:
        """Return a watch of a Run: enter it, then look at it and read from it.

        `live_events` is all that most need of it; this one also holds how the Run stands, and
        what its Steps have said.
        """
        return LiveRun(self.client, run_id, self.source)

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
        return await list_runs(self.client, chosen or RunFilter(), limit, cursor)

    async def result(self, run_id: str, call_id: str) -> str:
        """Return the result of a tool call, whole also where the model saw it cut.

        Args:
            run_id: Which Run.
            call_id: The call's id, or the number of the Step that executed it.

        Raises:
            RunNotFound: When there is no such Run.
            CallNotFound: When the Run has no such call.
            InvalidRequest: When the call has not ended.
            StorageUnavailable: When the whole result is not where this process looks for it.
            EngineUnavailable: When Temporal does not answer.
        """
        return await whole_result(self.client, await self.get_run(run_id), call_id)

    async def cancel(self, run_id: str, reason: str = "", *, mode: CancelMode = "now") -> Run:
        """Ask a Run to stop, and return it as it stands then.

        Nothing new starts. A Run that has ended is returned unchanged; one that no worker has
        picked up yet ends as soon as one does.

        *Idempotency*: asking twice is asking once; `after_step` can still be made more urgent.

        Args:
            run_id: Which Run.
            reason: Kept with the Run.
            mode: `now` tells what is in flight to stop, which brings back what it has;
                `after_step` lets it end first; `rollback` is `now`, and the Run's Session forgets
                its messages.

        Raises:
            RunNotFound: When there is no such Run.
            InvalidRequest: When the reason is too long.
            EngineUnavailable: When Temporal does not answer.
        """
        return await changing.cancel(self.client, run_id, CancelRequest(reason=reason, mode=mode))

    async def raise_limits(self, run_id: str, limits: Limits) -> Run:
        """Change how much a Run may use; one that is paused at a limit goes on.

        Args:
            run_id: Which Run.
            limits: Those to change.

        Raises:
            RunNotFound: When there is no such Run.
            RunAlreadyTerminal: When it has ended; resume it with other limits.
            InvalidRequest: When it waits for a limit, and this is not enough.
            NoWorker: When nothing would take the change.
            EngineUnavailable: When Temporal does not answer.
        """
        return await changing.raise_limits(self.client, self.task_queue, run_id, limits)

    async def resume(
        self, run_id: str, *, limits: Limits | None = None, timeouts: Timeouts | None = None
    ) -> Run:
        """Let a failed, cancelled or timed out Run go on from its last good Step.

        Same id, same totals, one stream of Events. What completed is not executed again; calls
        that were stopped are, unless their tool is `unsafe`.

        Args:
            run_id: Which Run.
            limits: Those to change: a Run that reached one would only reach it again.
            timeouts: Those to change; the Run's own time begins anew.

        Raises:
            RunNotFound: When there is no such Run.
            RunNotResumable: When it is open or completed, or would only fail again.
            NoWorker: When nothing would pick it up.
            EngineUnavailable: When Temporal does not answer.
        """
        changed = limits or Limits(), timeouts or Timeouts()
        return await continuing.resume(self.client, self.task_queue, run_id, *changed)

    async def fork(
        self, run_id: str, changed: Fork | None = None, *, new_run_id: str | None = None
    ) -> str:
        """Start a Run that begins where another stood after one of its Steps; return its id.

        The Steps up to there are taken over, not executed; the original stays as it is. The new
        Run counts its own usage only.

        Args:
            run_id: The original.
            changed: From which Step, and what is to be different.
            new_run_id: Chosen by us when not given.

        Raises:
            RunNotFound: When there is no such Run.
            InvalidRequest: When there is no such Step, or nothing would be left to do.
            RunAlreadyExists: When `new_run_id` was used before.
            NoWorker: When nothing would pick it up.
            EngineUnavailable: When Temporal does not answer.
        """
        chosen = checked_id("Run", new_run_id or new_id())
        await continuing.fork(self.client, self.task_queue, run_id, chosen, changed or Fork())
        return chosen
