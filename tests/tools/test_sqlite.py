"""SQLite by a model: everything may be read, nothing else done, and nothing for long."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError, ErrorCode, ToolRefused
from perdure.tools import sql_tools
from perdure.tools.sql import MAX_BYTES, MAX_CELL_CHARACTERS, MAX_ROWS
from perdure.tools.sqlite import _opened


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop?.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL, note TEXT, picture BLOB);
            CREATE INDEX by_total ON orders (total);
            CREATE VIEW large AS SELECT * FROM orders WHERE total > 10;
            INSERT INTO orders VALUES (1, 9.5, 'ä', x'00ff'), (2, 1e999, NULL, NULL);
            """
        )
    connection.close()
    return path


def tools(database: Path) -> dict[str, AnyTool]:
    return {each.name: each for each in sql_tools(f"sqlite:///{database}")}


def test_the_schema_is_told_in_a_line_a_table(database: Path) -> None:
    assert tools(database)["sql_schema"]() == (
        "large(id INTEGER, total REAL, note TEXT, picture BLOB)\n"
        "orders(id INTEGER, total REAL, note TEXT, picture BLOB)"
    )
    assert [each.policy.effect for each in tools(database).values()] == ["read", "read"]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM orders", [[1, 9.5, "ä", "00ff"], [2, "inf", None, None]]),
        ("WITH a AS (SELECT 1 UNION ALL SELECT 2) SELECT count(*) FROM a;", [[2]]),
        ("VALUES (1), (2)", [[1], [2]]),
        ("SELECT name FROM sqlite_master WHERE type = 'view' -- all", [["large"]]),
        ("EXPLAIN QUERY PLAN SELECT 1", [[1, 0, 0, "SCAN CONSTANT ROW"]]),
        ("SELECT id FROM orders WHERE id = 3", []),
    ],
)
def test_what_is_asked_for_is_given(database: Path, sql: str, rows: list[list[Any]]) -> None:
    assert tools(database)["sql_query"](sql)["rows"] == rows


DENIED = """
INSERT INTO orders VALUES (3, 1, '', NULL)
UPDATE orders SET total = 0
DELETE FROM orders
REPLACE INTO orders VALUES (1, 1, '', NULL)
WITH a AS (SELECT 1) DELETE FROM orders
DROP TABLE orders
CREATE TABLE mine (a)
CREATE TEMP TABLE mine (a)
ALTER TABLE orders ADD COLUMN mine
CREATE TRIGGER mine AFTER INSERT ON orders BEGIN SELECT 1; END
VACUUM
VACUUM INTO '{other}'
REINDEX
ANALYZE
BEGIN IMMEDIATE
SAVEPOINT a
ATTACH '{other}' AS other
ATTACH 'file:{other}?mode=rwc' AS other
DETACH main
PRAGMA query_only = OFF
PRAGMA writable_schema = ON
PRAGMA journal_mode = DELETE
PRAGMA user_version
SELECT load_extension('{other}')
SELECT fts3_tokenizer('simple', x'00')
SELECT * FROM pragma_query_only
SELECT length(printf('%.2000000000c', 'x'))
SELECT length(format('%.2000000000c', 'x'))
CREATE VIRTUAL TABLE mine USING fts5(a)
SELECT 1; DELETE FROM orders
SELECT 1; SELECT 2
""".strip().splitlines()


@pytest.mark.parametrize("sql", DENIED)
def test_whatever_is_more_than_reading_is_refused(database: Path, tmp_path: Path, sql: str) -> None:
    before = database.read_bytes(), sorted(tmp_path.iterdir())
    query = tools(database)["sql_query"]
    with pytest.raises((ToolRefused, ValueError)) as refused:
        query(sql.format(other=tmp_path / "other.db"))
    # Some functions are not even there in some builds.
    assert isinstance(refused.value, ToolRefused) or "no such function" in str(refused.value)
    if isinstance(refused.value, ToolRefused):
        assert refused.value.code is ErrorCode.QUERY_DENIED
    assert (database.read_bytes(), sorted(tmp_path.iterdir())) == before


@pytest.mark.parametrize("undone", ["PRAGMA query_only = OFF", "SELECT 1"])
def test_without_the_authorizer_the_file_could_not_be_changed_either(
    database: Path, undone: str
) -> None:
    with _opened(database) as connection:
        connection.execute(undone)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM orders")


COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (COUNT + "i FROM n WHERE i < 0", "took longer"),
        (COUNT + "count(*) FROM n", "took longer"),
        ("SELECT length(zeroblob(1000000000))", "too big"),
        ("SELECT length(hex(zeroblob(900000)))", "too big"),
        ("SELECT '" + "x" * 1_000_000 + "'", "too big|too large"),
        ("SELECT 'a' LIKE '" + "%a" * 500 + "'", "too complex"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500, "too large|overflow"),
        ("SELEC", "syntax error"),
        ("SELECT absent FROM orders", "no such column"),
        ("SELECT ?", "bindings"),
    ],
)
def test_what_would_take_too_much_is_stopped(
    database: Path, monkeypatch: pytest.MonkeyPatch, sql: str, why: str
) -> None:
    monkeypatch.setattr("perdure.tools.sqlite.MAX_SECONDS", 0.2)
    with pytest.raises((TimeoutError, ValueError), match=why):
        tools(database)["sql_query"](sql)


def test_an_answer_is_cut_by_rows_by_bytes_and_by_cells(database: Path) -> None:
    query = tools(database)["sql_query"]
    many = query(COUNT + "i FROM n")
    assert many["rows"] == [[number] for number in range(1, MAX_ROWS + 1)]
    assert many["cut"] == f"there are more than {MAX_ROWS} rows"
    exactly = query(COUNT + f"i FROM n LIMIT {MAX_ROWS}")
    assert len(exactly["rows"]) == MAX_ROWS
    assert "cut" not in exactly
    wide = query(COUNT + "hex(zeroblob(1000)) FROM n")
    assert wide["cut"] == f"more rows would be more than {MAX_BYTES} bytes"
    (long,) = query("SELECT hex(zeroblob(1500))")["rows"][0]
    assert long == "0" * MAX_CELL_CHARACTERS + "… (3000 characters)"


def test_a_database_that_is_being_written_is_read(database: Path) -> None:
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO orders VALUES (3, 1, 'not yet', NULL)")
    query = tools(database)["sql_query"]
    assert query("SELECT count(*) FROM orders")["rows"] == [[2]]
    writer.commit()
    assert query("SELECT count(*) FROM orders")["rows"] == [[3]]
    writer.close()


@pytest.mark.parametrize("url", ["mysql://root:hunter2@host/x", "hunter2", "", "sqlite:hunter2"])
def test_a_url_of_another_kind_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        sql_tools(url)
    assert "hunter2" not in str(refused.value)


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no database file"):
        sql_tools(f"sqlite:///{tmp_path}/absent.db")
    assert list(tmp_path.iterdir()) == []
