"""Every number of the bank's parts on models, Sessions and tools has at least one test."""

import re
from pathlib import Path

from tests.bugbank.test_cases import CASES

NUMBERS = {
    "TOOL": (1, 3, 4, 7, 9, 10, 12, 13, 14, 15, 16),
    "RESP": (1, 2, 4, 6, 7, 8, 10, 12, 13),
    "HIST": (1, 3, 5, 7, 8, 9),
    "STRM": (1, 2, 3, 5, 6, 8, 10, 11, 13, 14, 15),
    "HTTP": (1, 3, 5, 7, 8, 10, 11, 12, 14, 15),
}
"""As the bank numbers its cases; those left out there are duplicates."""


def test_every_number_has_a_test() -> None:
    wanted = {f"{part}-{number:02}" for part, numbers in NUMBERS.items() for number in numbers}
    apart = (Path(__file__).parent / "test_one_by_one.py").read_text()
    named = {
        f"{part.upper()}-{number}" for part, number in re.findall(r"test_([a-z]{4})_(\d\d)_", apart)
    }
    assert {case.id for case in CASES} | named == wanted


def test_every_number_about_sessions_has_a_test() -> None:
    tests = Path(__file__).parents[1]
    files = [*tests.glob("workflows/test_session*.py"), *tests.glob("e2e/test_*sessions.py")]
    named = re.findall(r"test_((?:gate|hist)_\d\d)_", "".join(f.read_text() for f in files))
    assert set(named) == {"gate_07", "gate_09", "hist_09"}


TOOLS = {
    "MCP": (1, 3, 4, 5, 6, 8, 10),
    "APPR": (1, 3, 4, 6, 8),
    "SECU": (3, 5, 7, 9),
}
"""Those about tools, and the people who decide about them."""


def test_every_number_about_tools_and_people_is_named_by_a_test() -> None:
    tests = Path(__file__).parents[1]
    files = [
        f for part in ("mcp", "tools", "workflows", "client") for f in tests.glob(f"{part}/*.py")
    ]
    text = "".join(f.read_text() for f in files)
    named = re.findall(r"((?:mcp|appr|secu)[-_]\d\d)", text, re.IGNORECASE)
    wanted = {f"{part}-{number:02}" for part, numbers in TOOLS.items() for number in numbers}
    assert {each.upper().replace("_", "-") for each in named} == wanted


def test_every_case_has_a_name_of_its_own() -> None:
    names = [str(case) for case in CASES]
    assert [name for name in set(names) if names.count(name) > 1] == []
