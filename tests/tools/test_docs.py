"""The examples of docs/tools.md do what they say."""

import re
import sqlite3
from pathlib import Path

import pytest

EXAMPLES = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "tools.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    for name in ("notes", "checkout"):
        (tmp_path / name).mkdir()
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER, total REAL)")
        database.execute("INSERT INTO orders VALUES (1, 9.5)")
    database.close()
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/tools.md", "exec"), {})  # noqa: S102 - ours
