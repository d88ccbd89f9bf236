"""PostgreSQL by a model, on a real server: everything may be read, and nothing else done."""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.agents.tool import AnyTool
from perdure.runs.errors import ConfigurationError, ErrorCode, ToolRefused
from perdure.tools import sql_tools
from perdure.tools.sql import MAX_BYTES, MAX_CELL_CHARACTERS, MAX_ROWS
from tests.conftest import free_port

PASSWORD = "hunter2-hunter2"  # noqa: S105 - made up
SETUP = """
CREATE TABLE orders (id int, total numeric, at timestamptz, tags text[], paid bool, raw bytea);
INSERT INTO orders VALUES (1, 9.50, '2025-01-02 03:04:05+00', '{a,b}', true, '\\x00ff'),
  (2, 'NaN', 'infinity', NULL, NULL, NULL);
CREATE VIEW large AS SELECT id, id AS selected FROM orders WHERE id > 1;
CREATE SEQUENCE numbers;
CREATE TABLE hidden (secret text);
CREATE FUNCTION write_it() RETURNS int LANGUAGE sql AS 'DELETE FROM orders RETURNING 1';
CREATE ROLE reader LOGIN PASSWORD 'hunter2-hunter2';
GRANT SELECT, INSERT, UPDATE, DELETE ON orders, large TO reader;
GRANT ALL ON SEQUENCE numbers TO reader;
GRANT pg_write_server_files, pg_execute_server_program TO reader;
"""
"""The role may write: it is the tool that does not."""


def programs() -> Path | None:
    """Return where the server's programs are, if there are any that can be run here."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb") or (known and str(known[-1] / "initdb"))
    if os.geteuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        return None  # the server refuses to run as root
    return Path(found).resolve().parent if found else None


PROGRAMS = programs()
pytestmark = pytest.mark.skipif(
    PROGRAMS is None, reason="no PostgreSQL server: install the Debian package `postgresql`"
)


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """A server of our own; its port."""
    assert PROGRAMS
    user = "postgres" if os.geteuid() == 0 else None
    place = Path(tempfile.mkdtemp(prefix="perdure-postgres-"))  # the user must get there
    if user:
        shutil.chown(place, user)

    def run(*command: str) -> None:
        assert PROGRAMS
        command = (str(PROGRAMS / command[0]), "-D", str(place / "data"), *command[1:])
        subprocess.run(command, user=user, check=True, cwd=place, stdout=subprocess.DEVNULL)  # noqa: S603

    port = free_port()
    run("initdb", "--no-sync", "--auth-host=scram-sha-256", "--auth-local=trust", "-U", "root")
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={place} -c fsync=off"
    )
    run("pg_ctl", "-w", "-l", str(place / "log"), "-o", options, "start")
    try:
        with psycopg.connect(host=str(place), port=port, user="root", dbname="postgres") as root:
            root.execute(SETUP.encode())
            root.execute(f"ALTER ROLE root PASSWORD '{PASSWORD}'".encode())
        yield port
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(place)


@pytest.fixture
def tools(server: int) -> dict[str, AnyTool]:
    return {each.name: each for each in sql_tools(url(server))}


def url(port: int, user: str = "reader", password: str = PASSWORD, more: str = "") -> str:
    return f"postgresql://{user}:{password}@127.0.0.1:{port}/postgres{more}"


async def test_the_schema_has_what_the_role_may_see(tools: dict[str, AnyTool]) -> None:
    assert await tools["sql_schema"]() == (
        "large(id integer, selected integer)\n"
        "orders(id integer, total numeric, at timestamp with time zone, tags ARRAY, paid boolean, "
        "raw bytea)"
    )


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT * FROM orders ORDER BY id",
            [
                [1, "9.50", "2025-01-02 03:04:05+00", "{a,b}", True, "\\x00ff"],
                [2, "NaN", "infinity", None, None, None],
            ],
        ),
        ("SELECT id FROM orders ORDER BY id DESC;", [[2], [1]]),
        ("  select 1 AS a, 2 AS a -- twice", [[1, 2]]),
        ("WITH a AS (VALUES (1), (2)) SELECT count(*) FROM a", [[2]]),
        ("TABLE large", [[2, 2]]),
        ("SELECT 1.5::float8, 'nan'::float8, '%s', '{}', NULL", [[1.5, "nan", "%s", "{}", None]]),
    ],
)
async def test_what_is_asked_for_is_given(
    tools: dict[str, AnyTool], sql: str, rows: list[list[Any]]
) -> None:
    assert (await tools["sql_query"](sql))["rows"] == rows


async def test_the_columns_are_named_also_without_rows(tools: dict[str, AnyTool]) -> None:
    told = await tools["sql_query"]("SELECT id, total FROM orders WHERE false")
    assert told == {"columns": ["id", "total"], "rows": []}


DENIED = """
INSERT INTO orders VALUES (3)
INSERT INTO orders VALUES (3) RETURNING id
UPDATE orders SET total = 0 RETURNING id
DELETE FROM orders RETURNING id
WITH a AS (DELETE FROM orders RETURNING id) SELECT * FROM a
SELECT write_it()
SELECT nextval('numbers')
SELECT setval('numbers', 5)
SELECT * INTO mine FROM orders
SELECT id FROM orders FOR UPDATE
SELECT set_config('transaction_read_only', 'off', false), write_it()
SELECT * FROM hidden
SELECT pg_read_file('/etc/passwd')
COPY (SELECT 1) TO '/tmp/perdure-copied'
COPY (SELECT 1) TO PROGRAM 'touch /tmp/perdure-copied'
COPY orders FROM PROGRAM 'touch /tmp/perdure-copied'
DROP TABLE orders
CREATE TEMP TABLE mine (a int)
SET TRANSACTION READ WRITE
SET SESSION AUTHORIZATION root
RESET ALL
COMMIT
BEGIN
DO 'BEGIN DELETE FROM orders; END'
CALL write_it()
VACUUM
LISTEN mine
NOTIFY mine
LOCK orders
PREPARE mine AS DELETE FROM orders
EXPLAIN ANALYZE DELETE FROM orders
SELECT 1; DELETE FROM orders
SELECT 1; SELECT 2
COMMIT; DELETE FROM orders
ROLLBACK; BEGIN READ WRITE; DELETE FROM orders; COMMIT
SELECT 1); COMMIT; DELETE FROM orders; SELECT (1
SELECT 1) SELECT 2; COMMIT; DELETE FROM orders; WITH selected AS (SELECT 1
SELECT 1) INSERT INTO orders (id
SELECT 1) SELECT * FROM orders; SELECT (1
SELECT 1 AS id), b AS (DELETE FROM orders RETURNING id
SELECT 1 /*
SELECT '
SELECT '\0'
SELECT $$
SELECT 1)
""".strip().splitlines()


async def test_whatever_is_more_than_reading_is_refused(tools: dict[str, AnyTool]) -> None:
    query, taken = tools["sql_query"], []
    for sql in DENIED:
        try:
            taken.append((sql, await query(sql)))
        except ToolRefused as exc:
            if exc.code is not ErrorCode.QUERY_DENIED:
                raise
    assert taken == []
    assert (await query("SELECT count(*), min(total) FROM orders"))["rows"] == [[2, "9.50"]]
    assert (await query("SELECT is_called FROM numbers"))["rows"] == [[False]]


HUGE = "repeat('x', 900000)"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT pg_sleep(60)", "statement took longer"),
        (
            "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
            "statement took longer",
        ),
        (f"SELECT {HUGE}", "a row is too large: 90000."),
        (f"SELECT 1 AS selected, {HUGE}", "a row is too large"),
        (f"SELECT 1), b AS (SELECT {HUGE}), c AS (SELECT {HUGE}", "^$"),
        ("SELECT absent FROM orders", "does not exist"),
        ("SELECT 1/0", "division by zero"),
        ("SELECT $1::int", "bind message|parameter"),
        ("SELECT 1" + " " * 50_000 + "+ 1", "longer than"),
    ],
)
async def test_what_would_take_too_much_is_stopped(
    tools: dict[str, AnyTool], monkeypatch: pytest.MonkeyPatch, sql: str, why: str
) -> None:
    monkeypatch.setattr("perdure.tools.postgres.MAX_SECONDS", 0.5)
    if why == "^$":  # what is selected stays ours
        assert await tools["sql_query"](sql) == {"columns": ["?column?"], "rows": [[1]]}
        return
    with pytest.raises((TimeoutError, ValueError), match=why):
        await tools["sql_query"](sql)


async def test_what_a_function_did_all_the_same_is_undone(tools: dict[str, AnyTool]) -> None:
    # Until PostgreSQL 16, a transaction that only reads can make these.
    with suppress(ToolRefused):
        await tools["sql_query"]("SELECT lo_create(0)")
    made = await tools["sql_query"]("SELECT count(*) FROM pg_largeobject_metadata")
    assert made["rows"] == [[0]]


async def test_an_answer_is_cut_by_rows_by_bytes_and_by_cells(tools: dict[str, AnyTool]) -> None:
    query = tools["sql_query"]
    many = await query("SELECT * FROM generate_series(1, 1000)")
    assert many["rows"] == [[number] for number in range(1, MAX_ROWS + 1)]
    assert many["cut"] == f"there are more than {MAX_ROWS} rows"
    wide = await query("SELECT repeat('x', 2000) FROM generate_series(1, 100)")
    assert wide["cut"] == f"more rows would be more than {MAX_BYTES} bytes"
    (long,) = (await query("SELECT repeat('x', 3000)"))["rows"][0]
    assert long == "x" * MAX_CELL_CHARACTERS + "… (3000 characters)"


async def test_a_query_that_is_cancelled_does_not_go_on(tools: dict[str, AnyTool]) -> None:
    others = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(61)%' AND pid <> "
    going = asyncio.create_task(tools["sql_query"]("SELECT pg_sleep(61)"))

    async def number() -> int:
        told = await tools["sql_query"](f"{others} pg_backend_pid()")
        return int(told["rows"][0][0])

    async with asyncio.timeout(10):
        while await number() == 0:
            assert not going.done()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        while await number():
            pass


async def test_a_superuser_is_refused(server: int) -> None:
    _, query = sql_tools(url(server, "root"))
    with pytest.raises(ConfigurationError, match="superuser"):
        await query("SELECT 1")


@pytest.mark.parametrize(
    "bad",
    [
        "postgresql://reader:{}@127.0.0.1:{port}/postgres",
        "postgresql://reader:{}@127.0.0.1:1/postgres",
        "postgresql://reader:{}@127.0.0.1:{port}/absent?password={}",
        "postgresql://reader:{}@127.0.0.1:nonsense/x",
        "postgresql://reader:{}/x@127.0.0.1/x",
        "postgresql://reader:x@{}@127.0.0.1/x",
        "postgresql://127.0.0.1:{port}/x?user=reader&{}=1",
        "postgresql://127.0.0.1:1/x?passfile=/absent&password={}&sslmode=absent",
    ],
)
async def test_no_password_is_in_an_error(server: int, bad: str) -> None:
    wrong = "correct-horse-battery"
    with pytest.raises((ConfigurationError, ValueError)) as refused:
        await sql_tools(bad.replace("{port}", str(server)).replace("{}", wrong))[1]("SELECT 1")
    shown = refused.value
    while shown is not None:
        assert wrong not in str(shown)
        assert shown.__suppress_context__ or shown.__context__ is None
        shown = shown.__cause__  # type: ignore[assignment]
