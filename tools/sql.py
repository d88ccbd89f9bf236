"""Read a database: its tables, and what one statement selects.

What keeps a statement from changing anything is in `sqlite` and `postgres`; here is what a
model is offered, and the bounds of an answer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError
from perdure.runs.messages import canonical_json

MAX_SECONDS = 10.0
"""For one statement."""
MAX_ROWS = 200
MAX_BYTES = 48 * 1024
"""Of all rows as JSON: less than what a model sees uncut."""
MAX_CELL_CHARACTERS = 2000
MAX_SQL_CHARACTERS = 20_000


def sql_tools(url: str, *, prefix: str = "sql_") -> list[AnyTool]:
    """Return tools that read a database and can't change it.

    Args:
        url: `sqlite:///relative/path.db`, `sqlite:////absolute/path.db`, or
            `postgresql://user:password@host/database` (extra `postgres`). Give PostgreSQL a role
            of its own that may only read what the model may know: functions can have effects
            that no transaction undoes. A superuser is refused.
        prefix: Put before the tools' names, where a worker has such tools for several databases.

    Returns:
        The tools `sql_schema` and `sql_query`.

    Raises:
        ConfigurationError: The URL is of no such kind, or the extra is missing.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        from perdure.tools.sqlite import sqlite_tools

        return sqlite_tools(rest.removeprefix("/"), prefix)
    if scheme in ("postgresql", "postgres"):
        from perdure.tools.postgres import postgres_tools

        return postgres_tools(url, prefix)
    # Not the URL itself: it may hold a password.
    raise ConfigurationError(
        "sql_tools() can't read a database of this kind.",
        hint="Give a URL that begins with sqlite:/// or postgresql://.",
    )


@dataclass
class Answer:
    """What a statement selected, as far as it may be shown."""

    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)
    cut: str = ""
    _bytes: int = 0

    def takes(self, row: Iterable[Any]) -> bool:
        """Add a row, unless there is no room for it."""
        cells = [_cell(value) for value in row]
        self._bytes += len(canonical_json(cells))
        if len(self.rows) == MAX_ROWS:
            self.cut = f"there are more than {MAX_ROWS} rows"
        elif self._bytes > MAX_BYTES:
            self.cut = f"more rows would be more than {MAX_BYTES} bytes"
        else:
            self.rows.append(cells)
        return not self.cut

    def told(self) -> dict[str, Any]:
        """Return what the model reads."""
        told: dict[str, Any] = {"columns": list(self.columns), "rows": self.rows}
        return told | {"cut": self.cut} if self.cut else told


def table_lines(columns: Iterable[tuple[str, str, str]]) -> str:
    """Write tables as a model reads them, from (table, column, type)."""
    tables: dict[str, list[str]] = {}
    for table, column, kind in columns:
        tables.setdefault(table, []).append(f"{column} {kind}".strip())
    lines = [f"{table}({', '.join(each)})" for table, each in tables.items()]
    text = "\n".join(lines) or "(no tables)"
    return text if len(text) <= MAX_BYTES else text[:MAX_BYTES] + "\n(cut)"


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes | memoryview):
        value = bytes(value[:MAX_CELL_CHARACTERS]).hex()
    if not isinstance(value, str | int | float | None):
        value = to_jsonable_python(value, fallback=str, inf_nan_mode="strings")
        value = value if isinstance(value, str) else canonical_json(value).decode()
    if isinstance(value, str) and len(value) > MAX_CELL_CHARACTERS:
        return f"{value[:MAX_CELL_CHARACTERS]}… ({len(value)} characters)"
    return value
