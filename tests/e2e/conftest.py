"""Fixtures of tests with worker processes."""

from pathlib import Path

import pytest

from tests.e2e.ledger import Ledger, Worker, workers
from tests.harness.engine import Engine


@pytest.fixture
def worker(engine: Engine) -> Worker:
    """Return what starts a worker process."""
    return workers(engine)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return what the tools of `ledger_agents` write."""
    return Ledger(tmp_path)
