"""Histories of Runs, of every version that wrote any, replay on the present code."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from perdure.engine.converter import data_converter
from perdure.workflows.run import RunWorkflow
from tests.replay.record import HISTORIES
from tests.replay.runs import KINDS

STORED = sorted(path for path in HISTORIES.glob("[0-9]*/*.json"))
BROKEN = sorted(HISTORIES.glob("broken/*.json"))


def history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(f"stored-{path.stem}", path.read_text())


def replayer() -> Replayer:
    return Replayer(
        workflows=[RunWorkflow],
        data_converter=data_converter(),
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_a_stored_history_replays(path: Path) -> None:
    await replayer().replay_workflow(history(path))


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
async def test_a_history_of_other_decisions_does_not_replay(path: Path) -> None:
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(history(path))


def test_every_kind_of_run_has_a_stored_history() -> None:
    assert {path.stem.split(".")[0] for path in STORED} >= set(KINDS)
    assert BROKEN
