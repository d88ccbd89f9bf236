"""The activities of a Session: what it can't know from its own history."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from perdure.runs.errors import RunNotFound, StorageUnavailable
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from perdure.runs.usage import Usage
from perdure.sessions import contract
from perdure.sessions.contract import OpenRuns, OutcomeRequest
from perdure.sessions.outcome import RunOutcome, outcome

ALIVE_EVERY_S = 2.0
PATIENCE_S = 20.0
"""For a Run that goes on. Then the activity makes room for a Step, where a worker has little, and
comes again: it leaves nothing in the history by that."""
AGAIN = timedelta(seconds=0.5)


class SessionActivities:
    """Reads Runs for their Sessions.

    Args:
        ended: Returns a Run once it has ended; raises `RunNotFound`.
        open_runs: Returns the ids of a Session's Runs that have not ended, in order.
    """

    def __init__(
        self,
        ended: Callable[[str], Awaitable[Run]],
        open_runs: Callable[[str], Awaitable[list[str]]],
    ) -> None:
        self._ended = ended
        self._open_runs = open_runs

    @activity.defn(name=contract.RUN_OUTCOME)
    async def run_outcome(self, request: OutcomeRequest) -> RunOutcome:
        """Wait for a Run's end, and return what it leaves.

        One that is deleted leaves nothing, nor one that can't be read for good: a Session that
        waited for it would be stuck.
        """
        # A local activity is read for a Run that has ended; Temporal hears nothing from it.
        alive = None if activity.info().is_local else asyncio.create_task(_heartbeats())
        patience = asyncio.timeout(None if alive is None else PATIENCE_S)
        try:
            async with patience:
                return outcome(await self._ended(request.run_id))
        except TimeoutError:
            if not patience.expired():
                raise
            raise ApplicationError(
                "The Run goes on.",
                type=contract.GOES_ON,
                next_retry_delay=AGAIN,
                category=ApplicationErrorCategory.BENIGN,
            ) from None
        except RunNotFound:
            return _lost(request.run_id)
        except StorageUnavailable as exc:
            if not getattr(exc, "non_retryable", False):
                raise
            return _lost(request.run_id)
        finally:
            if alive is not None:
                alive.cancel()

    @activity.defn(name=contract.OPEN_RUNS)
    async def open_runs(self, session_id: str) -> OpenRuns:
        """Return the Runs of a Session that have not ended."""
        return OpenRuns(run_ids=tuple(await self._open_runs(session_id)))


def _lost(run_id: str) -> RunOutcome:
    return RunOutcome(run_id=run_id, status=RunStatus.CANCELLED, usage=Usage(complete=False))


async def _heartbeats() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(ALIVE_EVERY_S)
