"""The activity that reads what a Run has used that could not say so itself at its end."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from perdure.runs import contract
from perdure.runs.run import Run
from perdure.runs.usage import Usage


class UsageActivities:
    """Reads the totals of Runs of other agents, for the Run that called them.

    Args:
        ended: Returns a Run once it has ended.
    """

    def __init__(self, ended: Callable[[str], Awaitable[Run]]) -> None:
        self._ended = ended

    @activity.defn(name=contract.RUN_USAGE)
    async def run_usage(self, run_id: str) -> Usage:
        """Return what a Run has used that has ended."""
        return (await self._ended(run_id)).usage
