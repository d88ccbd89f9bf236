"""The shape of the tree: files of one idea, each below 300 lines."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 300


def test_no_file_is_longer_than_300_lines() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in listed.stdout.split()}
    assert lengths
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}
