"""PostgreSQL, read-only: a transaction that only reads, around a statement that only selects.

The read-only transaction alone is not enough: it allows COPY to files and programs, and can be
ended by a second statement. So the statement is put into a WITH clause, where the grammar has
neither, and sent by the protocol that takes one statement only.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from perdure.agents.tool import AnyTool, tool
from perdure.runs.errors import ConfigurationError, ErrorCode, ToolRefused
from perdure.tools.sql import MAX_ROWS, MAX_SECONDS, MAX_SQL_CHARACTERS, Answer, table_lines

if TYPE_CHECKING:
    import psycopg
    from psycopg import AsyncConnection
    from psycopg.adapt import AdaptersMap
    from psycopg.rows import TupleRow

_MARGIN_S = 5.0
"""Until the server, whose own limit comes first, is not waited for any more."""
_CONNECT_S = 5
_CANCELLED = "57014"
_REFUSED = ("0A", "25", "42501", "42601")
"""Unsupported where it stands, wrong in a transaction that reads, not permitted, no syntax."""
_ENCLOSED = """
WITH selected AS (
{}
)
SELECT * FROM selected
-- A row has to fit into the worker's memory; one that is too large is an error of the cast.
WHERE CASE WHEN octet_length((selected.*)::text) <= 250000 THEN true
ELSE ('a row is too large: ' || octet_length((selected.*)::text) || ' bytes')::bool END
LIMIT {}
"""
"""The statement stands on lines of its own: a comment at its end ends there. One that closes the
bracket itself can begin another WITH, or an INSERT that is refused; what is selected stays ours."""
_COLUMNS = b"""
SELECT CASE table_schema WHEN 'public' THEN '' ELSE table_schema || '.' END || table_name,
       column_name, data_type
FROM information_schema.columns
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
ORDER BY table_schema, table_name, ordinal_position
"""


def postgres_tools(url: str, prefix: str) -> list[AnyTool]:
    """Return the tools for one database. A connection is made for each call.

    Raises:
        ConfigurationError: The URL is none, or psycopg is not installed.
    """
    database = _Database(url)

    @tool(name=f"{prefix}schema", effect="read")
    async def schema() -> str:
        """List the tables and views of the database, with their columns and types (PostgreSQL)."""
        return table_lines(await database.columns())

    @tool(name=f"{prefix}query", effect="read")
    async def query(sql: str) -> dict[str, Any]:
        """Execute one SELECT statement in the database (PostgreSQL).

        Args:
            sql: The statement. Ask for few rows, with WHERE and LIMIT; 200 are shown at most.

        Returns:
            The columns and rows, and `cut` where there is more than is shown.
        """
        return await database.selected(sql)

    return [schema, query]


class _Database:
    """Where to connect. Nothing of the URL is ever said: it may hold a password."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as exc:
            raise ConfigurationError(
                "sql_tools() needs a driver for PostgreSQL.", hint="Install perdure[postgres]."
            ) from exc
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # its words would quote parts of the URL
            raise ConfigurationError(
                "The URL of the PostgreSQL database can't be read.",
                hint="Write postgresql://user:password@host:port/database; escape odd characters.",
            ) from None
        self._url = url

    async def selected(self, sql: str) -> dict[str, Any]:
        """Return what one query selects."""
        if len(sql) > MAX_SQL_CHARACTERS:
            raise ValueError(f"The statement is longer than {MAX_SQL_CHARACTERS} characters.")
        statement = _ENCLOSED.format(sql.strip().removesuffix(";"), MAX_ROWS + 1)
        async with self._reading() as connection:
            # Prepared: only so does the server insist on one statement.
            cursor = await connection.execute(statement.encode(), prepare=True)
            answer = Answer([column.name for column in cursor.description or ()])
            async for row in cursor:
                if not answer.takes(row):
                    break
            return answer.told()

    async def columns(self) -> list[tuple[str, str, str]]:
        """Return (table, column, type) of all that the role may see."""
        async with self._reading() as connection:
            cursor = await connection.execute(_COLUMNS)
            return [(str(a), str(b), str(c)) for a, b, c in await cursor.fetchall()]

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator["AsyncConnection[TupleRow]"]:
        """Connect, and begin a transaction that only reads; it is never committed."""
        import psycopg

        try:
            async with asyncio.timeout(MAX_SECONDS + _MARGIN_S):
                connection = await self._connected()
                try:
                    await _begin(connection)
                    yield connection
                finally:
                    await connection.close()
        except psycopg.Error as exc:
            raise _told(exc) from None
        except TimeoutError:
            raise TimeoutError(f"The database took longer than {MAX_SECONDS:g} seconds.") from None

    async def _connected(self) -> "AsyncConnection[TupleRow]":
        import psycopg

        try:
            return await psycopg.AsyncConnection.connect(
                self._url, connect_timeout=_CONNECT_S, context=_as_text()
            )
        except psycopg.Error:
            # Its words quote the host; a password with an @ in it would be half in there.
            raise ValueError(
                "The database can't be connected to. Its URL, its server or the role is wrong."
            ) from None


async def _begin(connection: "AsyncConnection[TupleRow]") -> None:
    await connection.set_read_only(True)
    await connection.execute(f"SET LOCAL statement_timeout = {int(MAX_SECONDS * 1000)}".encode())
    cursor = await connection.execute(b"SELECT current_setting('is_superuser')")
    if await cursor.fetchone() == ("on",):
        raise ConfigurationError(
            "The role of the PostgreSQL URL is a superuser, who can write files by a SELECT.",
            hint="Use a role of its own that may only read what the model may know.",
        )


def _told(exc: "psycopg.Error") -> Exception:
    code = exc.sqlstate or ""
    if code == _CANCELLED:
        return TimeoutError(f"The statement took longer than {MAX_SECONDS:g} seconds.")
    if code.startswith(_REFUSED):
        why = f"The statement is refused; one SELECT is taken: {exc}"
        return ToolRefused(why, code=ErrorCode.QUERY_DENIED)
    return ValueError(f"The statement failed: {exc}")


def _as_text() -> "AdaptersMap":
    """Return how values are read: as the server writes them, but for plain numbers and truth."""
    from psycopg.adapt import AdaptersMap
    from psycopg.postgres import types
    from psycopg.types.bool import BoolLoader
    from psycopg.types.numeric import FloatLoader, IntLoader
    from psycopg.types.string import TextLoader

    adapters = AdaptersMap(types=types)
    adapters.register_loader(0, TextLoader)
    for name in ("int2", "int4", "int8", "oid"):
        adapters.register_loader(name, IntLoader)
    for name in ("float4", "float8"):
        adapters.register_loader(name, FloatLoader)
    adapters.register_loader("bool", BoolLoader)
    return adapters
