"""The file search: what it finds, what it must never read, and where it ends."""

import os
from pathlib import Path

import pytest

from perdure.tools.search import MAX_FILE_BYTES, MAX_LINE_CHARACTERS, MAX_RESULTS, search_tool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to search in, beside a file that is none of its business."""
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "b.txt").write_text("first\n  The Quick brown fox\nquick only\n")
    (folder / "a.md").write_text("FOX, quickly\r\n")
    (folder / "deep" / "er" / "c.txt").write_text(
        "stra\N{LATIN SMALL LETTER SHARP S}e\x1b[31m fox\n"
    )
    (tmp_path / "secret.txt").write_text("quick secret fox\n")
    return folder


def test_lines_with_all_words_are_found_in_a_fixed_order(folder: Path) -> None:
    search = search_tool(folder)
    assert search("fox QUICK") == "a.md:1: FOX, quickly\nb.txt:2: The Quick brown fox"
    assert search("STRASSE") == (
        "deep/er/c.txt:1: stra\N{LATIN SMALL LETTER SHARP S}e\N{REPLACEMENT CHARACTER}[31m fox"
    )
    assert search("quick absent") == "No line contains all of: quick absent"


def test_the_number_of_lines_is_bounded_and_the_rest_is_mentioned(folder: Path) -> None:
    search = search_tool(folder)
    assert search("fox", max_results=1) == "a.md:1: FOX, quickly\n(there are more matching lines)"
    (folder / "many.txt").write_text("needle\n" * 100)
    assert search("needle", max_results=10**9).count("many.txt:") == MAX_RESULTS
    (folder / "long.txt").write_text("pin" + "x" * 10_000)
    assert len(search("pin")) == len("long.txt:1: ") + MAX_LINE_CHARACTERS


@pytest.mark.parametrize(("query", "max_results"), [("", 5), (" \n", 5), ("fox", 0)])
def test_an_empty_search_is_refused(folder: Path, query: str, max_results: int) -> None:
    with pytest.raises(ValueError, match=r"no words|at least 1"):
        search_tool(folder)(query, max_results)


def test_no_link_leads_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder)
    search = search_tool(folder)
    assert search("secret") == "No line contains all of: secret"
    assert search("../secret.txt") == "No line contains all of: ../secret.txt"


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    assert search_tool(tmp_path / "alias")("brown") == "b.txt:2: The Quick brown fox"


def test_hidden_binary_large_and_special_files_are_skipped(folder: Path) -> None:
    (folder / ".env").write_text("needle")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("needle")
    (folder / "binary").write_bytes(b"needle\0")
    (folder / "large.txt").write_bytes(b"needle\n".ljust(MAX_FILE_BYTES + 1))
    os.mkfifo(folder / "pipe")
    search = search_tool(folder)
    assert search("needle") == "No line contains all of: needle"
    (folder / "largest.txt").write_bytes(b"needle\n".ljust(MAX_FILE_BYTES))
    assert search("needle") == "largest.txt:1: needle"


def test_names_and_text_that_are_not_unicode_give_text_that_is(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\n.txt")).write_bytes(b"needle \xfe")
    bad = "\N{REPLACEMENT CHARACTER}"
    assert search_tool(folder)("needle") == f"{bad}{bad}.txt:1: needle {bad}"


@pytest.mark.parametrize(
    ("limit", "value", "notice"),
    [("MAX_FILES", 1, "after 1 files"), ("MAX_SECONDS", -1.0, "after -1 seconds")],
)
def test_a_search_ends_at_its_limits_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, notice: str
) -> None:
    monkeypatch.setattr(f"perdure.tools.search.{limit}", value)
    assert search_tool(folder)("brown").endswith(f"\n(the search ended {notice})")


def test_a_folder_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        search_tool(tmp_path / "absent")
