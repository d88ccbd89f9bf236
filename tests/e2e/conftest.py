"""Fixtures of tests with worker processes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.ledger import Ledger, Worker, workers
from tests.harness.engine import Engine
from tests.harness.otlp import Receiver, receiving


@pytest.fixture
def worker(engine: Engine) -> Worker:
    """Return what starts a worker process."""
    return workers(engine)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return what the tools of `ledger_agents` write."""
    return Ledger(tmp_path)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A real OTLP receiver."""
    async with receiving() as receiver:
        yield receiver
