"""STRM-08 and STRM-10: the pieces of tool calls that come at once."""

from typing import Any

from tests.activities.streams import delta, piece
from tests.bugbank.case import CALLS, END, Case, done, stream

X, Y = '{"f":"x"}', '{"f":"y"}'
BOTH = ("read x", "read y")
GLUED: dict[str, list[Any]] = {
    "whole, ids differ": [
        piece("read", X, index=0, id="a"),
        piece("read", Y, index=0, id="b"),
    ],
    "whole, no ids": [piece("read", X, index=0), piece("read", Y, index=0)],
    "in pieces, ids differ": [
        piece("read", "", index=0, id="a"),
        piece(None, X[:4], index=0),
        piece(None, X[4:], index=0),
        piece("read", "", index=0, id="b"),
        piece(None, Y[:4], index=0),
        piece(None, Y[4:], index=0),
    ],
    "in pieces, no ids": [
        piece("read", "", index=0),
        piece(None, X, index=0),
        piece("read", "", index=0),
        piece(None, Y[:4], index=0),
        piece(None, Y[4:], index=0),
    ],
    "in one delta": [
        delta(
            tool_calls=[
                {"index": 0, "id": "a", "function": {"name": "read", "arguments": X}},
                {"index": 0, "id": "b", "function": {"name": "read", "arguments": Y}},
            ]
        )
    ],
    "no index at all": [piece("read", X, id="a"), piece("read", Y, id="b")],
    "index true": [piece("read", X, index=True, id="a"), piece("read", Y, index=True, id="b")],
}
SAME_INDEX = [
    Case("STRM-08", what, (stream(*items, CALLS), END), executed=BOTH)
    for what, items in GLUED.items()
] + [
    Case(
        "STRM-08",
        "without arguments",
        (
            stream(piece("ping", "", index=0, id="a"), piece("ping", "", index=0, id="b"), CALLS),
            END,
        ),
        executed=("ping", "ping"),
    ),
    Case(
        "STRM-08",
        "other names, no ids",
        (stream(piece("ping", "{}", index=0), piece("read", X, index=0), CALLS), END),
        executed=("ping", "read x"),
    ),
    Case(
        "STRM-08",
        "one call: the name and a new id with every piece",
        (
            stream(
                piece("read", "", index=0, id="a"),
                piece(None, X[:4], index=0, id="b"),
                piece(None, X[4:], index=0, id="c"),
                CALLS,
            ),
            END,
        ),
        executed=("read x",),
        calls=[done(call_id="a")],
    ),
]


def interleaved(first: Any, second: Any, name: str | None = None) -> list[Any]:
    """Return two calls whose pieces take turns."""
    return [
        piece("read", None, index=first, id="a"),
        piece("read", "", index=second, id="b"),
        piece(name, X[:5], index=first, id=None),
        piece(name, Y[:5], index=second, id=""),
        piece(None, X[5:], index=first),
        piece(None, Y[5:], index=second),
        piece(None, None, index=first),
    ]


INTERLEAVED = [
    Case("STRM-10", what, (stream(*items, CALLS), END), executed=BOTH)
    for what, items in {
        "0 and 1": interleaved(0, 1),
        "1 and 0": interleaved(1, 0),
        "text": interleaved("0", "1"),
        "floats": interleaved(0.0, 1.0),
        "one of them text": interleaved(0, "1"),
        "far apart": interleaved(3, 2**40),
        "names repeated": interleaved(0, 1, "read"),
        "names empty": interleaved(0, 1, ""),
        "names in pieces": [
            piece("re", "", index=0, id="a"),
            piece("re", "", index=1, id="b"),
            piece("ad", X, index=0),
            piece("ad", Y, index=1),
        ],
    }.items()
]

CASES: list[Case] = [*SAME_INDEX, *INTERLEAVED]
