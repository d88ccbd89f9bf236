"""TOOL-12 and TOOL-13: calls without an id."""

from typing import Any

from tests.activities.streams import entry, piece
from tests.bugbank.case import CALLS, Case, asked, done, stream
from tests.bugbank.tool_cases import BOTH, A, B, told

BLANK = ["", " ", "\t\n", None, True, [], {}, 1.5]
BLANK_IDS = [
    told(
        "TOOL-12",
        "blank and senseless ids",
        asked(*(entry(id, "ping", "{}") for id in BLANK)),
        *["ping"] * len(BLANK),
        calls=[done(call_id=f"call_1_{n}") for n in range(1, len(BLANK) + 1)],
        next_request=('"tool_call_id":"call_1_8"',),
    ),
    told(
        "TOOL-12",
        "numbers and half a character",
        asked(*(entry(id, "ping", "{}") for id in (17, 0, "\ud83d"))),
        *["ping"] * 3,
        calls=[done(call_id="17"), done(call_id="0"), done(call_id="\ufffd")],
    ),
    told(
        "TOOL-12",
        "streamed",
        stream(piece("ping", "{}", index=0, id=""), CALLS),
        "ping",
        calls=[done(call_id="call_1_1")],
    ),
]


def bare(arguments: str, **fields: Any) -> dict[str, Any]:
    """Return a call that has neither an id nor a type."""
    return {"id": None, "function": {"name": "read", "arguments": arguments}, **fields}


ALL_AT_ONCE = {"choices": [{"delta": {"tool_calls": [bare(A, index=0), bare(B, index=1)]}}]}
NULL_ID_REPLIES = {
    "whole": asked(bare(A), bare(B)),
    "streamed, index by index": stream(piece("read", A, index=0), piece("read", B, index=1), CALLS),
    "streamed without an index": stream(piece("read", A), piece("read", B), CALLS),
    "all in one delta": stream(ALL_AT_ONCE, CALLS),
}
NULL_IDS = [
    told(
        "TOOL-13",
        what,
        reply,
        *BOTH,
        calls=[
            done(call_id="call_1_1", result="content of a"),
            done(call_id="call_1_2", result="content of b"),
        ],
        next_request=('"type":"function"',),
    )
    for what, reply in NULL_ID_REPLIES.items()
]

CASES: list[Case] = [*BLANK_IDS, *NULL_IDS]
