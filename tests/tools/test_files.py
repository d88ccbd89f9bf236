"""SECU-03: files of one folder, whatever a model names, whatever others do to it, and no other."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.runs.errors import ErrorCode, ToolRefused
from perdure.tools import file_tools
from perdure.tools.confined import Confined
from perdure.tools.files import MAX_FILE_BYTES, MAX_LISTED, MAX_SHOWN_BYTES
from tests.tools.folders import SECRET, state, tools


def denied(call: Any, *arguments: Any) -> bool:
    with pytest.raises(ToolRefused) as refused:
        call(*arguments)
    return refused.value.code is ErrorCode.PATH_DENIED


def test_a_folder_is_listed_without_links_hidden_and_special_files(folder: Path) -> None:
    listed = tools(folder)["list_files"]
    assert listed() == "deep/\nplan.md (13)"
    assert listed("deep//./er/") == "x.txt (1)"
    (folder / "empty").mkdir()
    assert listed("empty") == "(empty)"
    for number in range(MAX_LISTED + 2):
        (folder / "empty" / f"{number:04}").touch()
    assert listed("empty").endswith("0499 (0)\n(2 more are not shown)")
    (folder / "empty" / "a\nb").touch()
    assert "\nb" not in listed("empty")


def test_a_long_file_is_read_part_by_part(folder: Path) -> None:
    read = tools(folder)["read_file"]
    assert read("plan.md") == "one\ntwo\nthree"
    assert read("./deep/er/x.txt") == "x"
    assert read("plan.md", 3) == "three"
    lines = [f"{number} {'x' * 1000}" for number in range(100)]
    lines[50] = "y" * (MAX_SHOWN_BYTES + 1)
    (folder / "long.txt").write_text("\n".join(lines))
    first = 1
    seen: list[str] = []
    while True:
        text, _, notice = read("long.txt", first).rpartition("\n(cut; go on with first_line=")
        if not text:
            seen += notice.split("\n")
            break
        seen += text.split("\n")
        first = int(notice.split()[0])
    assert [line[:MAX_SHOWN_BYTES] for line in lines] == seen


@pytest.mark.parametrize(
    ("path", "first_line", "why"),
    [
        ("absent", 1, "No such file"),
        ("plan.md/x", 1, "Not a directory"),
        ("plan.md", 4, "has 3 lines"),
        ("plan.md", 0, "at least 1"),
        ("binary", 1, "not a text file"),
        ("large", 1, "larger than"),
    ],
)
def test_what_is_no_readable_text_is_an_error_that_says_so(
    folder: Path, path: str, first_line: int, why: str
) -> None:
    (folder / "binary").write_bytes(b"a\0b")
    (folder / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises((OSError, ValueError), match=why):
        tools(folder)["read_file"](path, first_line)


OUTSIDE = [
    "../outside/secret.txt",
    "deep/../../outside/secret.txt",
    "deep/../plan.md",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "link.txt",
    "inner-link.txt",
    "link/secret.txt",
    "link/new.txt",
    "link/new/new.txt",
    "dangling",
    "pipe",
    ".env",
    "deep/.hidden",
    "plan.md\0",
    "\0",
    "plan\n.md",
    "\x1b[31mplan.md",
    "pl\u202ean.md",
    "\ud800",
    "x" * 256,
    "/".join("x" * 500),
    "a/" * 600,
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_folder(folder: Path, outside: Path, path: str) -> None:
    before = state(outside), state(folder)
    offered = tools(folder)
    assert denied(offered["read_file"], path)
    assert denied(offered["write_file"], path, "overwritten")
    assert (state(outside), state(folder)) == before


@pytest.mark.parametrize("path", ["..", "link", "/etc", "deep/..", ".git", "link/x", "a\nb"])
def test_no_folder_outside_is_listed(folder: Path, path: str) -> None:
    assert denied(tools(folder)["list_files"], path)


def test_a_device_is_not_opened(tmp_path: Path) -> None:
    # The file system of devices is the only place that is sure to have some.
    assert denied(Confined("/dev").read, "zero", 10)
    assert denied(Confined("/dev").read, "tty", 10)


@pytest.mark.parametrize("path", [".", "", "./"])
def test_the_folder_itself_is_no_file(folder: Path, path: str) -> None:
    assert denied(tools(folder)["read_file"], path)
    assert denied(tools(folder)["write_file"], path, "x")


def test_a_file_is_written_whole_or_not_at_all(folder: Path) -> None:
    write = tools(folder)["write_file"]
    (folder / "plan.md").chmod(0o640)
    assert write("plan.md", "ä") == "2 bytes were written to 'plan.md'."
    assert (folder / "plan.md").read_text() == "ä"
    assert (folder / "plan.md").stat().st_mode & 0o777 == 0o640
    write("new/er/y.txt", "y")
    assert (folder / "new" / "er" / "y.txt").read_text() == "y"
    before = state(folder)
    with pytest.raises(ValueError, match="may have"):
        write("plan.md", "x" * (MAX_FILE_BYTES + 1))
    assert denied(write, "deep", "x")
    assert state(folder) == before


def test_writing_breaks_the_tie_to_a_hard_link_and_changes_nothing_outside(
    folder: Path, outside: Path
) -> None:
    (folder / "hard.txt").hardlink_to(outside / "secret.txt")
    tools(folder)["write_file"]("hard.txt", "mine")
    assert (outside / "secret.txt").read_text() == SECRET
    assert (folder / "hard.txt").read_text() == "mine"


def test_nothing_is_written_unless_it_was_asked_for(folder: Path) -> None:
    names = [each.name for each in file_tools(folder, prefix="my_")]
    assert names == ["my_list_files", "my_read_file", "my_search_files"]
    effects = {each.name: each.policy.effect for each in tools(folder).values()}
    assert effects.pop("write_file") == "keyed"
    assert set(effects.values()) == {"read"}


def test_a_folder_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        file_tools(tmp_path / "absent")


NAMES = (
    ".. . / deep er link link.txt outside secret.txt dangling plan.md ~ %2e%2e ..\\ ... pipe new"
).split()
PIECES = st.sampled_from([*NAMES, "", ".. ", "\0", "\n", "\uff0e\uff0e"])


@given(st.lists(PIECES | st.text(max_size=5), max_size=8), st.sampled_from(["/", "//", "/./"]))
@example(["..", "outside", "secret.txt"], "/")
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_is_named_nothing_outside_is_read_or_changed(
    folder: Path, outside: Path, pieces: list[str], between: str
) -> None:
    before = state(outside)
    path = between.join(pieces)
    offered = tools(folder)
    for call, arguments in (
        (offered["read_file"], [path]),
        (offered["list_files"], [path]),
        (offered["write_file"], [path, "overwritten"]),
    ):
        try:
            said = call(*arguments)
        except (ToolRefused, OSError, ValueError):
            continue
        assert SECRET not in said
        assert "only-here" not in said
    assert state(outside) == before
