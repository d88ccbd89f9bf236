"""How a worker runs workflow code: no sandbox, and all that one task brings before any goes on."""

from dataclasses import replace

from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)
from temporalio.worker._workflow_instance import _WorkflowLogicFlag

FLAGS = frozenset({_WorkflowLogicFlag.PROCESS_WORKFLOW_ACTIVATION_JOBS_AS_SINGLE_BATCH})
"""Without it the SDK (1.35) lets workflow code run between signals and updates on one side, and
results, timers and a cancel of the same task on the other: a Run that an update lets go on would
start a Step that the cancel beside it takes back, unseen by the history. The SDK has the flag, but
does not set it before two more releases know it; what was written with it replays by what the
history says, whatever is set here."""


class Runner(UnsandboxedWorkflowRunner):
    """Runs workflow code as it is: no code but ours, which imports and lint keep deterministic."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return a workflow that hears everything first."""
        return super().create_instance(replace(det, default_workflow_logic_flags=FLAGS))
