"""Values that programs lose on the way, and what a Run makes of each."""

import dataclasses
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict

THIRTY_DIGITS = 123456789012345678901234567890
EXACT: dict[str, Any] = {
    "beyond 53 bits": 9223372036854775807,
    "an id of 19 digits": 2512292042121000001,
    "unsigned 64 bits": 18446744073709551615,
    "thirty digits": THIRTY_DIGITS,
    "negative": -THIRTY_DIGITS,
    "4,000 digits": 10**4000 + 7,
    "a long fraction": 0.2345678901234568,
    "smallest": 5e-324,
    "largest": 1.7976931348623157e308,
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈",
    "nul": "a\0b",
    "every control character": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "line separators": "\u2028\u2029\ufeff",
    "last characters": "\ud7ff\ue000\ufffd\uffff\U0010ffff",
    "combining": "e\u0301 \u00e9",
    "quotes": "\\\"'</script>{{[[%s",
    "a number as text": "007",
    "empty": ["", [], {}, None, False, 0],
    "odd names": {"": 1, "\0": 2, "é": 3, "a.b": 4, "__proto__": 5},
    "90 levels": json.loads("[" * 90 + "]" * 90),
}


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")

    when: datetime
    ratio: float = 1.5
    amount: Decimal = Decimal("1.10")


@dataclasses.dataclass
class Outer:
    inner: Inner
    colour: Colour
    tags: frozenset[str]


WHEN = datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)
UID = UUID("12345678-1234-5678-1234-567812345678")

RETURNED: list[tuple[Any, str]] = [
    (9223372036854775807, "9223372036854775807"),
    (-THIRTY_DIGITS, "-123456789012345678901234567890"),
    (10**4500, "1" + "0" * 4500),
    (1e16, "1e+16"),
    (0.2345678901234568, "0.2345678901234568"),
    ({"ratio": float("nan"), "rows": [1.0, float("-inf")]}, '{"ratio":null,"rows":[1.0,null]}'),
    ("NaN and Infinity", "NaN and Infinity"),
    (["NaN and Infinity", 10**30], f'["NaN and Infinity",{10**30}]'),
    ("a\0b", "a\0b"),
    (["a\0b"], '["a\\u0000b"]'),
    ("ok \udc9d", "ok \ufffd"),
    ({"\udc9d": ["\ud83d"]}, '{"\ufffd":["\ufffd"]}'),
    ("👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"),
    (b"gr\xc3\xbc\xc3\x9fe", '"grüße"'),
    (WHEN, '"2026-02-28T23:59:59.123456Z"'),
    ([date(2026, 1, 2), timedelta(hours=1)], '["2026-01-02","PT1H"]'),
    (Decimal("1.10"), '"1.10"'),
    ({"id": UID}, f'{{"id":"{UID}"}}'),
    (Colour.RED, '"red"'),
    ({3}, "[3]"),
    ((1, (2,)), "[1,[2]]"),
    ({1: "a", None: "b"}, '{"1":"a","None":"b"}'),
    (
        Outer(Inner(when=WHEN, ratio=float("nan")), Colour.RED, frozenset({"x"})),
        '{"inner":{"when":"2026-02-28T23:59:59.123456Z","ratio":null,"amount":"1.10"},'
        '"colour":"red","tags":["x"]}',
    ),
    (Inner(when=WHEN, ratio=float("inf")), None),
]
"""What a tool returns, and what the model reads."""


def nested(levels: int) -> Any:
    """Return lists in lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def circular() -> Any:
    """Return an object that holds itself."""
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value
