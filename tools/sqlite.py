"""SQLite, read-only: by how the file is opened, and by an authorizer that knows only reading."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.agents.tool import AnyTool, tool
from perdure.runs.errors import ConfigurationError, ErrorCode, ToolRefused
from perdure.tools.sql import MAX_SECONDS, MAX_SQL_CHARACTERS, Answer, table_lines

_INSTRUCTIONS = 100
"""Of SQLite's machine, between two looks at the clock. Each may be a function that takes long."""
_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
"""All else is refused: ATTACH, PRAGMA, transactions, and whatever writes."""
_FORBIDDEN_FUNCTIONS = ("load_extension", "fts3_tokenizer", "printf", "format")
"""The last two take half a minute for a wide enough field, whatever the limits are."""
_LIMITS = {
    # One call of a function can't be interrupted, so it gets no large values to work on.
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_SQL_CHARACTERS,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_COLUMNS = """
SELECT m.name, c.name, c.type FROM sqlite_master AS m, pragma_table_info(m.name) AS c
WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
ORDER BY m.name, c.cid
"""


def sqlite_tools(path: str, prefix: str) -> list[AnyTool]:
    """Return the tools for one database file.

    Raises:
        ConfigurationError: There is no such file.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ConfigurationError(f"There is no database file {path!r}.")

    @tool(name=f"{prefix}schema", effect="read")
    def schema() -> str:
        """List the tables and views of the database, with their columns and types (SQLite)."""
        with _opened(file) as connection:
            return table_lines(connection.execute(_COLUMNS))

    @tool(name=f"{prefix}query", effect="read")
    def query(sql: str) -> dict[str, Any]:
        """Execute one SELECT statement in the database (SQLite).

        Args:
            sql: The statement. Ask for few rows, with WHERE and LIMIT; 200 are shown at most.

        Returns:
            The columns and rows, and `cut` where there is more than is shown.
        """
        with _opened(file) as connection:
            return _selected(connection, sql)

    return [schema, query]


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=MAX_SECONDS)
    try:
        connection.execute("PRAGMA query_only = ON")
        # Functions in views and columns of the file are whoever's made the file.
        connection.execute("PRAGMA trusted_schema = OFF")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        ends_at = time.monotonic() + MAX_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > ends_at, _INSTRUCTIONS)
        yield connection
    finally:
        connection.close()


class _Authorizer:
    """Asked about each thing that a statement would do, before it is executed."""

    def __init__(self) -> None:
        self.has_denied = False

    def __call__(self, action: int, _: str | None, name: str | None, *rest: str | None) -> int:
        is_function = action == sqlite3.SQLITE_FUNCTION
        if action in _READING and not (is_function and name in _FORBIDDEN_FUNCTIONS):
            return sqlite3.SQLITE_OK
        self.has_denied = True
        return sqlite3.SQLITE_DENY


def _selected(connection: sqlite3.Connection, sql: str) -> dict[str, Any]:
    authorizer = _Authorizer()
    connection.set_authorizer(authorizer)
    try:
        cursor = connection.execute(sql)
        answer = Answer([column[0] for column in cursor.description or ()])
        for row in cursor:
            if not answer.takes(row):
                break
    except (sqlite3.Error, sqlite3.Warning) as exc:
        # A second statement is an error of the module's own, a warning in older versions.
        if authorizer.has_denied or "one statement" in str(exc):
            why = f"The statement is refused; one SELECT is taken: {exc}."
            raise ToolRefused(why, code=ErrorCode.QUERY_DENIED) from None
        if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            why = f"The statement took longer than {MAX_SECONDS:g} seconds."
            raise TimeoutError(why) from None
        raise ValueError(f"The statement failed: {exc}.") from None
    return answer.told()
