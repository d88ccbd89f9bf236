"""Workflow code does nothing that a replay could see differ."""

from pathlib import Path

import pytest

from tests.workflows.determinism import faults

ROOT = Path(__file__).parents[2]
REPLAYED = sorted(path for folder in ("workflows", "runs") for path in (ROOT / folder).glob("*.py"))


@pytest.mark.parametrize("path", REPLAYED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_replayed_code_is_deterministic(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from random import choice",
        "from concurrent.futures import Future",
        "asyncio.wait(tasks)",
        "asyncio.as_completed(tasks)",
        "datetime.now(UTC)",
        "datetime.datetime.now()",
        "key = hash(name)",
        "open(path)",
        "for each in {a, b}: go(each)",
        "for each in set(names): go(each)",
        "found = [go(each) for each in {x for x in names}]",
        "found = list(set(names))",
        "text = ', '.join({a, b})",
        "go(*{a, b})",
        "for each in mine & theirs.keys(): go(each)",
        "for each in mine.union(theirs): go(each)",
        "seen = set()\nfor each in seen: go(each)",
        "def f(names: set[str]):\n    return [go(each) for each in names]",
        "def f(self):\n    self.s: set[int] = other\n    return tuple(self.s)",
    ],
)
def test_what_is_not_is_found(source: str) -> None:
    assert len(faults(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "for each in sorted({a, b}): go(each)",
        "if name in {a, b}: go(name)",
        "many = len(set(names))",
        "every = all(each.done for each in {a, b})",
        "for each in names: go(each)",
        "left = total - used\nfor n in range(left): go(n)",
        "workflow.wait(tasks)",
        "workflow.now()",
    ],
)
def test_what_is_is_not_complained_about(source: str) -> None:
    assert faults(source) == []
