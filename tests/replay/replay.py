"""Replay every stored history in a process of its own: `python -m tests.replay.replay`.

For hash seeds: `PYTHONHASHSEED` is read when an interpreter starts.
"""

import asyncio
import json
from pathlib import Path

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from perdure.engine.connect import leave
from perdure.engine.converter import data_converter
from perdure.workflows.run import RunWorkflow
from perdure.workflows.session import SessionWorkflow

HISTORIES = Path(__file__).parents[1] / "histories"
STORED = sorted(path for path in HISTORIES.glob("[0-9]*/*.json"))
BROKEN = sorted(HISTORIES.glob("broken/*.json"))


async def replay(path: Path) -> None:
    """Replay one history.

    Raises:
        NondeterminismError: When the code decides otherwise than it did then.
    """
    replayer = Replayer(
        workflows=[RunWorkflow, SessionWorkflow],
        data_converter=data_converter(),
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    text = path.read_text()  # noqa: ASYNC240 - nothing else waits
    # The ids of child Runs are made of the Run's own.
    stored = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    workflow_id = stored.get("workflowId") or f"stored-{path.stem}"
    await replayer.replay_workflow(WorkflowHistory.from_json(workflow_id, text))


async def _all() -> None:
    for path in STORED:
        await replay(path)


if __name__ == "__main__":
    asyncio.run(_all())
    leave(0)
