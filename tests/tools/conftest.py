"""Fixtures: folders with everything that leads out of them, and a web server."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.folders import SECRET
from tests.tools.web import Web, serving


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What no tool may reach: a folder with secrets, beside the one that is given away."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (outside / "only-here.txt").write_text(SECRET)
    return outside


@pytest.fixture
def folder(tmp_path: Path, outside: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "plan.md").write_text("one\ntwo\nthree")
    (folder / "deep" / "er" / "x.txt").write_text("x")
    (folder / ".env").write_text(SECRET)
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "inner-link.txt").symlink_to("plan.md")
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to(outside / "new")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    """The server of a host that tests may fetch from."""
    async with serving() as web:
        yield web
