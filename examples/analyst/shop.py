"""The analyst's database: a year of orders of a kite shop, the same ones on every machine."""

import sqlite3
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

ORDERS = 400
FIRST_DAY = date(2025, 1, 1)
KITES = [("Sparrow", 35), ("Heron", 120), ("Swift", 85), ("Gannet", 140), ("Puffin", 20)]
"""Name and price in euros."""
COUNTRIES = ["Norway", "Sweden", "Denmark", "Norway", "Germany", "Norway", "Sweden"]

_SCHEMA = """
CREATE TABLE kites (name TEXT PRIMARY KEY, price_eur INTEGER NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    day TEXT NOT NULL,
    country TEXT NOT NULL,
    kite TEXT NOT NULL REFERENCES kites (name),
    quantity INTEGER NOT NULL,
    total_eur INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('delivered', 'returned'))
);
"""


def made(path: Path) -> Path:
    """Make the database unless it is there, and return its absolute path."""
    path = path.absolute()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Put in its place when it is whole: two workers may start at once, or one may die here.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder, path.name)
        database = sqlite3.connect(new)
        database.executescript(_SCHEMA)
        database.executemany("INSERT INTO kites VALUES (?, ?)", KITES)
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", _orders())
        database.commit()
        database.close()
        new.replace(path)
    return path


def _orders() -> Iterator[tuple[int, str, str, str, int, int, str]]:
    # Remainders of products look irregular enough, and need no random numbers.
    for number in range(1, ORDERS + 1):
        day = FIRST_DAY + timedelta(days=(number - 1) * 365 // ORDERS)
        kite, price = KITES[number * number * 7 % 31 % len(KITES)]
        quantity = 1 + number * 5 % 11 // 8
        status = "returned" if number * 37 % 101 < 9 else "delivered"
        country = COUNTRIES[number * 13 % 47 % len(COUNTRIES)]
        yield number, day.isoformat(), country, kite, quantity, quantity * price, status
