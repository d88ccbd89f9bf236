"""STRM: streams with holes, pings, breaks and odd framing."""

import gzip
import json
from typing import Any

from tests.activities.streams import delta, piece
from tests.bugbank.case import END, FAST_MS, STOP, Case, attempts, ends, lost, stream
from tests.harness.scripted_openai import Reply, drop, raw

NO_CHOICES: dict[str, Any] = {"choices": []}
HEL, LO = delta(content="Hel"), delta(content="lo")
USED = {**NO_CHOICES, "usage": {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}}


def fine(number: str, what: str, *items: Any, **expected: Any) -> Case:
    """Return a case of a stream that says "Hello" and is read at once."""
    return ends(number, what, None, stream(*items), output="Hello", **expected)


PRELUDE = {
    **NO_CHOICES,
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
}
HOLES = [
    fine("STRM-01", "first and last", PRELUDE, HEL, LO, STOP, USED, usage=(12, 34, True)),
    fine(
        "STRM-01", "usage beside the end", HEL, LO, {**STOP, **USED, **STOP}, usage=(12, 34, True)
    ),
    fine(
        "STRM-01",
        "usage inside the choice",
        HEL,
        LO,
        {"choices": [{**STOP["choices"][0], "usage": USED["usage"]}]},
        usage=(12, 34, True),
    ),
    fine("STRM-01", "no usage at all", PRELUDE, HEL, LO, STOP, complete=False),
]

PINGS: list[Any] = [
    *(NO_CHOICES, {"choices": None}, {"choices": [{"index": 0, "delta": None}]}),
    *({"choices": [{"index": 0}]}, {"choices": [None]}, {"choices": ["x"]}, {"choices": {}}, {}),
    *({"choices": [{"delta": {"content": None, "tool_calls": None, "role": None}}]},),
    *({"choices": [{"delta": [], "finish_reason": None}]}, {"type": "ping"}, {"error": None}),
    *(b"data: null\n\n", b"data: 7\n\n", b'data: "ping"\n\n', b"data: []\n\n", b"data:\n\n"),
    *(b": keep-alive\n\n", b"event: ping\n\n", b"\n\n", b"data: \n\n", b"id: 7\n\n"),
    *({"choices": [{"index": 1, "delta": {"content": "Other."}}]}, {"usage": None}, {"usage": []}),
    *({"choices": [{"delta": {"tool_calls": [None, {}, {"index": 0, "function": None}, "x"]}}]},),
]
ONLY_PINGS = [
    ends(
        "STRM-02",
        "mixed with text",
        None,
        stream(*PINGS, HEL, *PINGS, LO, *PINGS, STOP, *PINGS),
        output="Hello",
    ),
    *lost(
        "STRM-02",
        {
            "pings only": stream(*PINGS),
            "pings and a stop": stream(*PINGS, STOP),
            "nothing but [DONE]": stream(),
        },
    ),
    ends(
        "STRM-02",
        "pings only, again and again",
        "llm_bad_response",
        *[stream(NO_CHOICES)] * attempts("llm_bad_response"),
        complete=False,
    ),
]

UNENDED = {
    "one text": stream(HEL).without_done(),
    "half a call": stream(piece("pay", '{"eur":', index=0, id="a")).without_done(),
    "a whole call": stream(piece("pay", '{"eur":5}', index=0, id="a")).without_done(),
    "nothing": stream().without_done(),
    "half an event": stream(HEL, b'data: {"choices":[{"delta":{"content":"l').without_done(),
}
INCOMPLETE = [
    *lost("STRM-03", UNENDED),
    ends(
        "STRM-03",
        "the part is kept with the attempt",
        None,
        stream(delta(content="Half.")).without_done(),
        END,
        output="Done.",
        history_holds=("partial_text", "Half.", "stream_incomplete"),
        never_sent=("Half.",),
    ),
    ends(
        "STRM-03",
        "again and again",
        "stream_incomplete",
        *[stream(HEL).without_done()] * attempts("stream_incomplete"),
        error_holds=("Hel",),
        complete=False,
    ),
    fine("STRM-03", "the last blank line is missing", HEL, LO, b"data: [DONE]"),
]


def sent_as(data: bytes, **headers: str) -> Reply:
    """Answer with the bytes of a stream."""
    return raw(data, "text/event-stream").with_headers(retry_after_ms=FAST_MS, **headers)


def event(chunk: Any, end: str = "\n\n") -> bytes:
    """Return one event of a stream."""
    return f"data: {json.dumps(chunk)}{end}".encode()


HELLO = [event(c) for c in (HEL, LO, STOP)]
PLAIN = b"".join(HELLO) + b"data: [DONE]\n\n"
FRAMES: dict[str, Reply] = {
    "a retry hint": sent_as(b"retry: 3000\n\n" + PLAIN),
    "hints, ids and comments between": sent_as(b"id: 1\nretry: 1\n: x\n\n".join([b"", *HELLO])),
    "event names": sent_as(PLAIN.replace(b"data:", b"event: message\ndata:")),
    "no spaces": sent_as(PLAIN.replace(b"data: ", b"data:")),
    "more spaces": sent_as(PLAIN.replace(b"data: ", b"data:   ")),
    "CRLF": sent_as(PLAIN.replace(b"\n", b"\r\n")),
    "CR": sent_as(PLAIN.replace(b"\n", b"\r")),
    "a byte order mark": sent_as(b"\xef\xbb\xbf" + PLAIN),
    "no blank lines": sent_as(PLAIN.replace(b"\n\n", b"\n")),
    "an event in several lines": sent_as(PLAIN.replace(b', "', b',\ndata: "')),
    "compressed": sent_as(gzip.compress(PLAIN, mtime=0), content_encoding="gzip"),
    "named JSON": raw(PLAIN, "application/json"),
    "named nothing": raw(PLAIN, ""),
    "one body under the name of a stream": sent_as(
        json.dumps({"choices": [{"message": {"content": "Hello"}}]}).encode()
    ),
}
FRAMING = [
    ends("STRM-05", what, None, reply, output="Hello", step={"attempt": 1})
    for what, reply in FRAMES.items()
] + [
    ends(
        "STRM-05",
        "byte by byte, also within characters",
        None,
        stream(
            *(bytes([b]) for b in b'data: {"choices":[{"delta":{"content":"'),
            *(bytes([b]) for b in "漢😀".encode()),
            b'"}}]}\r',
            b"\n\r",
            b"\n",
        ).delayed(0.001),
        output="漢😀",
    ),
    *lost("STRM-05", {"what is no JSON": stream(b"data: <html>\n\n")}),
    *lost(
        "STRM-05",
        {"not compressed as it says": sent_as(PLAIN, content_encoding="gzip")},
        complete=None,
    ),
]  # fmt: skip

BOOM = {"message": "boom", "code": "server_error"}
ERRORS_INSIDE: dict[str, list[Any]] = {
    "an object": [{"error": BOOM}],
    "text": [{"error": "STREAM_EXPLODED"}],
    "a list": [{"error": [BOOM]}],
    "a status as text": [{"error": {"message": "boom", "code": "502"}}],
    "beside an empty choice": [{"error": BOOM, "choices": [{"index": 0, "delta": {}}]}],
    "an event of that name": [
        b'event: error\ndata: {"message": "boom", "type": "server_error"}\n\n'
    ],
    "after the end": [STOP, {"error": BOOM}],
    "deep": [{"error": {"error": {"message": "boom", "code": 500}}}],
    "with half a character": [{"error": {"message": "boom \ud83d", "code": None}}],
}
FAILURES = {what: stream(HEL, *items, LO) for what, items in ERRORS_INSIDE.items()}
PAY = piece("pay", '{"eur":5}', index=0, id="a")
ERRORS = [
    *lost("STRM-06", FAILURES),
    ends(
        "STRM-06",
        "again and again",
        "llm_unavailable",
        *[stream(HEL, {"error": BOOM}).with_headers(x_request_id="req_7")]
        * attempts("llm_unavailable"),
        error_holds=("boom", "req_7", "Hel"),
    ),
    ends("STRM-06", "a final one", "llm_auth", stream(HEL, {"error": {"code": 401}})),
    *lost("STRM-06", {"before anything": stream({"error": BOOM})}, complete=None),
    *lost("STRM-06", {"after a whole call, not executed": stream(PAY, {"error": BOOM})}),
]

BROKEN = {
    "after text": stream(HEL).cut(1),
    "inside an event": stream(HEL, b'data: {"choices":[{"del').cut(2),
    "inside a call": stream(piece("pay", '{"eur":5', index=0, id="a")).cut(1),
    "after a whole call": stream(PAY).cut(1),
    "after the headers": stream(HEL).cut(0),
    "with usage reported": stream(HEL, USED).cut(2),
}
UNANSWERED = {
    "before the headers": drop(),
    "in a body that is no stream": raw(b'{"choices":', "application/json").cut(1),
}
CUT = [
    *lost("STRM-11", BROKEN),
    *lost("STRM-11", UNANSWERED, complete=None),
    ends("STRM-11", "after the finish reason", None, stream(HEL, LO, STOP).cut(3), output="Hello"),
]


CASES: list[Case] = [*HOLES, *ONLY_PINGS, *INCOMPLETE, *FRAMING, *ERRORS, *CUT]
