"""What Runs are compared with: a Temporal workflow that executes empty activities in a row.

Nothing else may be imported here: the sandbox loads this file again for each workflow, and
whatever that costs would be counted against the bare workflow.
"""

from datetime import timedelta

from temporalio import activity, workflow


@activity.defn(name="nothing")
async def nothing() -> None:
    """Do nothing."""


@workflow.defn(name="Bare")
class BareWorkflow:
    """As many activities, one after the other, as a Run has Steps."""

    @workflow.run
    async def run(self, activities: int) -> None:
        """Execute `activities` empty activities."""
        for _ in range(activities):
            await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(hours=1))


def activities_of(turns: int) -> int:
    """Return the Steps of a Run: each turn is a model and a tool call, the last only the model."""
    return 2 * turns - 1
