"""Histories of Runs and Sessions, of every version that wrote any, replay on the present code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.workflow import NondeterminismError

from tests.replay.replay import BROKEN, HISTORIES, STORED, replay
from tests.replay.runs import KINDS
from tests.replay.sessions import SESSIONS

ROOT = Path(__file__).parents[2]
SEEDS = range(20)


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_a_stored_history_replays(path: Path) -> None:
    await replay(path)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
async def test_a_history_of_other_decisions_does_not_replay(path: Path) -> None:
    with pytest.raises(NondeterminismError):
        await replay(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_stored_histories_replay_whatever_order_sets_and_hashes_have(seed: int) -> None:
    replayed = subprocess.run(
        [sys.executable, "-m", "tests.replay.replay"],
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert replayed.returncode == 0, replayed.stderr


def test_every_kind_of_run_and_session_has_a_stored_history() -> None:
    assert {path.stem.split(".")[0] for path in STORED} >= {*KINDS, *SESSIONS}
    assert BROKEN


def released(changelog: str, tags: str) -> set[str]:
    """Return the versions that a changelog or a tag says were released."""
    headings = re.findall(r"^## \[?v?(\d\S*?)\]?(?:\s|$)", changelog, re.MULTILINE)
    tagged = re.findall(r"^v?(\d+\.\d+\S*)$", tags, re.MULTILINE)
    return {*headings, *tagged}


def test_every_released_version_has_stored_histories() -> None:
    listed = subprocess.run(
        ["git", "tag", "--list"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    changelog = (ROOT / "CHANGELOG.md").read_text()
    stored = {path.parent.name for path in STORED}
    missing = released(changelog, listed.stdout) - stored
    assert not missing, f"released without histories in {HISTORIES}: run `make histories` there"


def test_releases_are_found_in_headings_and_tags() -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n### Added\n\n## [1.2.0] - 2026-01-01\n\n## 1.1.0\n"
    assert released(changelog, "v1.0.0\n0.9.1\nnightly\n") == {"1.2.0", "1.1.0", "1.0.0", "0.9.1"}
