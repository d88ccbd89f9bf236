"""The part of `RunManager` for whoever looks after many Runs: pages, bulk, deletion, agents."""

import asyncio
from collections.abc import Sequence

from temporalio.client import Client

from perdure.client import agents, changing, deleting
from perdure.client.deleting import Deleted
from perdure.client.event_pages import EventPage, event_page
from perdure.client.listing import RunFilter, list_runs
from perdure.client.settling import settled
from perdure.client.starting import checked_reason
from perdure.runs.catalogue import AgentList
from perdure.runs.contract import CancelRequest
from perdure.runs.errors import PerdureError, RunError
from perdure.runs.events import CancelMode
from perdure.runs.frozen import Frozen
from perdure.runs.run import Run
from perdure.runs.status import RunStatus

MAX_CANCELLED = 200
"""Runs that are cancelled at once by a filter."""
CANCELLED_AT_ONCE = 8
"""Requests to Temporal under way."""


class Cancelled(Frozen):
    """What became of cancelling one Run."""

    run_id: str
    status: RunStatus | None = None
    """How it stood then; none where it could not be cancelled."""
    error: RunError | None = None
    """Why it could not."""


class CancelReport(Frozen):
    """What became of cancelling several Runs."""

    runs: tuple[Cancelled, ...]
    has_more: bool = False
    """More Runs fit the filter: ask again."""


class Overseeing:
    """Runs by the page and by the dozen, and the agents they are of."""

    client: Client
    task_queue: str

    async def event_page(
        self, run_id: str, *, starting_after: int = -1, limit: int = 100
    ) -> EventPage:
        """Return Events of a Run that have happened; it waits for none.

        Args:
            run_id: Which Run.
            starting_after: Sequence number of the last Event you have; -1 for all.
            limit: At most so many.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        return await event_page(self.client, run_id, starting_after, limit)

    async def settled(self, run_id: str, *, timeout_s: float = 30.0) -> Run:
        """Return a Run once it has ended or needs a person; as it stands after `timeout_s`.

        What needs a person: an approval, an answer, a limit to be raised, a pause to be ended.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When the server stays away for a minute.
        """
        return await settled(self.client, run_id, timeout_s)

    async def cancel_runs(
        self, which: Sequence[str] | RunFilter, reason: str = "", *, mode: CancelMode = "now"
    ) -> CancelReport:
        """Ask several Runs to stop; one that can't be does not keep the others from it.

        *Idempotency*: as `cancel`.

        Args:
            which: Their ids; or which ones, of those that are open: at most 200 of them, the
                newest ones.
            reason: Kept with each Run.
            mode: As `cancel` has it.

        Raises:
            InvalidRequest: When the reason is too long.
            EngineUnavailable: When Temporal does not answer while they are looked for.
        """
        request = CancelRequest(reason=checked_reason(reason), mode=mode)
        more = False
        if isinstance(which, RunFilter):
            chosen = which.model_copy(update={"is_open": True})
            found = await list_runs(self.client, chosen, MAX_CANCELLED, None)
            which, more = [each.run_id for each in found.runs], found.next_cursor is not None
        turns = asyncio.Semaphore(CANCELLED_AT_ONCE)

        async def one(run_id: str) -> Cancelled:
            async with turns:
                try:
                    run = await changing.cancel(self.client, run_id, request)
                except PerdureError as exc:
                    told = RunError(code=exc.code, message=exc.message, hint=exc.hint)
                    return Cancelled(run_id=run_id, error=told)
                return Cancelled(run_id=run_id, status=run.status)

        done = await asyncio.gather(*[one(each) for each in dict.fromkeys(which)])
        return CancelReport(runs=tuple(done), has_more=more)

    async def delete_run(self, run_id: str) -> Deleted:
        """Cancel a Run if it goes on, and delete it from Temporal, with the Runs it has called.

        What its Session remembers of it stays there; so does what Temporal does not hold, as
        `SessionHandle.delete` says. Asking again deletes what was left.

        Raises:
            RunNotFound: When there is no such Run.
            NoWorker: When nothing ends it.
            EngineUnavailable: When Temporal does not answer.
        """
        return await deleting.delete_run(self.client, run_id)

    async def list_agents(self) -> AgentList:
        """Return the agents that the workers serve.

        Raises:
            NoWorker: When none answers within a few seconds.
            ConfigurationError: When the Temporal server is too old to ask one.
            EngineUnavailable: When Temporal does not answer.
        """
        return await agents.list_agents(self.client, self.task_queue)
