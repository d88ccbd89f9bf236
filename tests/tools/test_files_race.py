"""Files of one folder, while others swap what is in it for links to the outside."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.runs.errors import ToolRefused
from tests.tools.folders import SECRET, state, tools

RACES = 1500


@pytest.fixture
def swapped(folder: Path, outside: Path) -> Iterator[Path]:
    """A folder and a file in it that are swapped for links to the outside, again and again."""
    (folder / "swap").mkdir()
    (folder / "swap" / "secret.txt").write_text("inside")
    (folder / "swap.txt").write_text("inside")
    away, stop = folder.parent / "away", threading.Event()
    away.mkdir()

    def swap() -> None:
        while not stop.is_set():
            for name, target in (("swap", outside), ("swap.txt", outside / "secret.txt")):
                with suppress(OSError):
                    os.rename(folder / name, away / name)
                    os.symlink(target, folder / name)
                    os.unlink(folder / name)
                # A tool may have made a folder while there was none.
                shutil.rmtree(folder / name, ignore_errors=True)
                with suppress(OSError):
                    os.rename(away / name, folder / name)

    thread = threading.Thread(target=swap)
    thread.start()
    yield folder
    stop.set()
    thread.join()


def test_a_folder_swapped_for_a_link_in_the_middle_lets_nothing_out(
    swapped: Path, outside: Path
) -> None:
    offered = tools(swapped)
    before = state(outside)
    ends = {"read": 0, "refused": 0}
    for number in range(RACES):
        for call, arguments in (
            (offered["read_file"], ["swap/secret.txt"]),
            (offered["read_file"], ["swap.txt"]),
            (offered["list_files"], ["swap"]),
            (offered["search_files"], ["secret"]),
            (offered["write_file"], ["swap/new.txt", "new"]),
        ):
            # Writing waits for the disk, so it is done less often.
            if call is offered["write_file"] and number % 20:
                continue
            try:
                said = call(*arguments)
            except (ToolRefused, OSError):
                ends["refused"] += 1
                continue
            ends["read"] += 1
            assert SECRET not in said
            assert "only-here" not in said
    assert state(outside) == before
    assert all(ends.values()), "the race never happened"


def test_a_folder_that_is_replaced_is_read_as_it_is_now(folder: Path) -> None:
    read = tools(folder)["read_file"]
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "plan.md").write_text("new")
    assert read("plan.md") == "new"
