"""A folder that tools are given, and one beside it that they may not reach."""

from pathlib import Path

from perdure.agents.tool import AnyTool
from perdure.tools import file_tools

SECRET = "outside-secret"  # noqa: S105 - made up


def tools(folder: Path) -> dict[str, AnyTool]:
    return {each.name: each for each in file_tools(folder, write=True)}


def state(place: Path) -> dict[str, str]:
    """Everything in a folder, links as what they say."""
    found = {}
    for path in sorted(place.rglob("*")):
        is_text = path.is_file() and not path.is_symlink()
        found[str(path)] = path.read_text() if is_text else str(path.is_symlink())
    return found
