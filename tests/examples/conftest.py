"""The example agents, loaded as a worker loads them, with data of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agents.registry import Registry

SOURCES = [
    "perdure.examples.assistant.agent",
    "perdure.examples.researcher",
    "perdure.examples.analyst",
    "perdure.examples.operations",
    "perdure.examples.planner",
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples keep what they make; not in the user's own folder."""
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="session")
def examples(folder: Path) -> Iterator[Registry]:
    """All of them, in one registry. They read the environment when they are imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANALYST_DATABASE", str(folder / "new" / "shop.db"))
        patch.setenv("OPERATIONS_FOLDER", str(folder / "operations"))
        registry = Registry.load(SOURCES)
        registry.check()
        yield registry
