"""HTTP: statuses, retries and what was used. Timing has tests of its own."""

from typing import Any

from tests.activities.streams import entry
from tests.bugbank.case import END, Case, asked, attempts, body, done, ends, failing, one
from tests.harness.scripted_openai import RecordedRequest, Reply, status, text

PING = one("ping", "{}")


def final(number: str, what: str, code: str, reply: Reply, **expected: Any) -> Case:
    """Return a case of an error after which nothing is tried again."""
    return ends(number, what, code, reply, **expected)


WAITS = [
    ends(
        "HTTP-01",
        what,
        None,
        *[status(429, headers=headers)] * 2,
        text("Done."),
        output="Done.",
        step={"attempt": 3},
    )
    for what, headers in {
        "in milliseconds": {"retry-after-ms": "150"},
        "in seconds": {"retry-after": "0.1"},
        "milliseconds count first": {"retry-after-ms": "20", "retry-after": "30"},
    }.items()
] + [
    final(
        "HTTP-01",
        f"longer than anybody waits: {asked_for}",
        "rate_limited",
        status(429, headers={"retry-after": asked_for}),
        error_holds=("too long",),
    )
    for asked_for in ("86400", "Fri, 31 Dec 2100 23:59:59 GMT")
]

QUOTA = "insufficient_quota"
BALANCES: dict[str, tuple[int, Any]] = {
    "code and type": (429, {"code": QUOTA, "type": QUOTA}),
    "type": (429, {"message": "You exceeded your current quota.", "type": QUOTA}),
    "a number as code": (429, {"code": 429, "type": QUOTA}),
    "402": (402, {"message": "Insufficient Balance"}),
    "billing": (400, {"code": "billing_hard_limit_reached"}),
    "403": (403, {"code": QUOTA}),
}
NO_QUOTA = [
    final("HTTP-03", what, "quota_exhausted", failing(code, error), error_holds=("req_7",))
    for what, (code, error) in BALANCES.items()
] + [
    Case(
        "HTTP-03",
        "after good turns, which are kept",
        (PING, failing(429, {"code": QUOTA})),
        status="failed",
        code="quota_exhausted",
        output=None,
        executed=("ping",),
        calls=[done(result="pong")],
    )
]

LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
OVERFLOWS: dict[str, tuple[int, Any]] = {
    "code": (400, {"code": "context_length_exceeded", "message": "..."}),
    "words": (400, {"message": LONG, "type": "BadRequestError", "code": 400}),
    "other words": (400, {"message": "prompt is too long: 9000 tokens > 8192 maximum"}),
    "llama.cpp": (400, {"type": "exceed_context_size_error", "message": "exceeds"}),
    "too large": (413, {"message": "Input exceeds the context window of this model."}),
}
OVERFLOW = [
    final(
        "HTTP-05", what, "context_overflow", failing(code, error), error_holds=(error["message"],)
    )
    for what, (code, error) in OVERFLOWS.items()
] + [
    final("HTTP-05", "none: a bad request", "invalid_request", failing(400, {"message": "No."})),
    Case(
        "HTTP-05",
        "after good turns, which are kept",
        (PING, failing(400, {"code": "context_length_exceeded"})),
        status="failed",
        code="context_overflow",
        output=None,
        executed=("ping",),
        calls=[done(result="pong")],
    ),
]

FIVE = asked(*(entry(f"c{n}", "ping", "{}") for n in range(5)))
OVERLOADED = failing(529, {"type": "overloaded_error", "message": "Overloaded"})
OVERLOAD = [
    Case(
        "HTTP-07",
        "late in a long Run, for a while",
        (*[FIVE] * 8, *[OVERLOADED] * 4, END),
        executed=("ping",) * 40,
        calls=[done(result="pong")] * 40,
    ),
    Case(
        "HTTP-07",
        "for good",
        (*[PING] * 2, *[OVERLOADED] * attempts("llm_unavailable")),
        status="failed",
        code="llm_unavailable",
        output=None,
        executed=("ping",) * 2,
        calls=[done(result="pong")] * 2,
        error_holds=("529", "Overloaded"),
    ),
]

SECRET = "sk-FAKE1234567890abcd"  # noqa: S105 - made up
OURS = "test-key-1234"
BAD_KEY = {"message": f"Incorrect API key provided: {SECRET}", "code": "invalid_api_key"}
AUTH = [
    final("HTTP-08", what, "llm_auth", reply, secret=SECRET, error_holds=("[redacted]",))
    for what, reply in {
        "401": failing(401, BAD_KEY),
        "401 with a page": status(401, f"<html>{SECRET}</html>"),
        "403": failing(403, {"message": f"No access with {SECRET}"}),
        "401 with the key in a list": status(401, {"error": [{"message": f"Bad {SECRET}"}]}),
        "200": body({"error": {**BAD_KEY, "code": 401}}),
    }.items()
] + [
    final("HTTP-08", "our own key", "llm_auth",
          failing(401, {"message": f"Bad key {OURS}"}), secret=OURS),
    final("HTTP-08", "nothing said", "llm_auth", status(403, b"")),
]  # fmt: skip

SERVER_ERRORS = (
    [
        ends(
            "HTTP-10",
            f"always {code}",
            kind,
            *[failing(code)] * attempts(kind),
            requests=attempts(kind),
        )
        for code, kind in {
            500: "llm_unavailable",
            503: "llm_unavailable",
            408: "llm_unavailable",
        }.items()
    ]
    + [
        ends("HTTP-10", "always 429", "rate_limited", *[failing(429)] * attempts("rate_limited")),
        ends(
            "HTTP-10",
            "a page",
            None,
            status(502, "<html>Bad gateway</html>", {"retry-after-ms": "20"}),
            END,
            output="Done.",
        ),
    ]
    + [
        final("HTTP-10", f"never after {code}", kind, failing(code, {"message": "No."}))
        for code, kind in {
            400: "invalid_request",
            404: "invalid_request",
            405: "invalid_request",
            413: "invalid_request",
            422: "invalid_request",
        }.items()
    ]
)

LATE = [
    Case(
        "HTTP-11",
        f"a late {code}",
        (one("pay", '{"eur":5}'), failing(code, {"message": "No."})),
        status="failed",
        code=kind,
        output=None,
        executed=("pay 5",),
        calls=[done(result="paid")],
    )
    for code, kind in {400: "invalid_request", 401: "llm_auth"}.items()
] + [
    Case(
        "HTTP-11",
        "late 503s",
        (one("pay", '{"eur":5}'), *[failing(503)] * 2, END),
        executed=("pay 5",),
    ),
]


def using(usage: Any) -> Reply:
    """Answer with this usage."""
    message = {"message": {"content": "Done."}, "finish_reason": "stop"}
    return body({"choices": [message], "usage": usage})


COUNTS = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
DETAILS: dict[str, Any] = {
    "null counters": {
        "prompt_tokens_details": {"cached_tokens": None},
        "completion_tokens_details": None,
    },
    "other nulls": {
        "prompt_tokens_details": None,
        "completion_tokens_details": {"reasoning_tokens": None, "audio_tokens": None},
    },
    "lists": {"prompt_tokens_details": [], "completion_tokens_details": [1]},
    "text": {"prompt_tokens_details": "none", "completion_tokens_details": "1"},
    "negative": {"prompt_tokens_details": {"cached_tokens": -3}},
    "more cached than sent": {"prompt_tokens_details": {"cached_tokens": 99}},
    "total null": {"total_tokens": None},
}
NULL_DETAILS = [
    ends("HTTP-12", what, None, using({**COUNTS, **details}), output="Done.", usage=(9, 1, True))
    for what, details in DETAILS.items()
]


def has_stream_options(request: RecordedRequest) -> bool:
    """Tell whether a request has the parameter that strict proxies refuse."""
    return "stream_options" in request.body


UNCOUNTED = [
    Case(
        "HTTP-14",
        "switched off",
        (PING, END),
        agent="uncounted",
        refused_if=has_stream_options,
        executed=("ping",),
        usage=(0, 0, False),
        never_sent=("stream_options",),
    ),
    Case(
        "HTTP-14",
        "switched off, and reported unasked",
        (using(COUNTS),),
        agent="uncounted",
        refused_if=has_stream_options,
        usage=(9, 1, True),
    ),
    Case(
        "HTTP-14",
        "left on: the request is refused, nothing is stripped",
        (),
        refused_if=has_stream_options,
        status="failed",
        code="invalid_request",
        output=None,
        requests=1,
        error_holds=("Scripted refusal.",),
    ),
]

TURNS = [
    Case(
        "HTTP-15",
        "the limit of turns",
        (asked(entry("a", "ping", "{}")),) * 3,
        agent="short",
        status="failed",
        code="max_turns",
        output=None,
        executed=("ping",) * 3,
        calls=[done(result="pong")] * 3,
    )
]

CASES: list[Case] = [
    *(*WAITS, *NO_QUOTA, *OVERFLOW, *OVERLOAD, *AUTH, *SERVER_ERRORS),
    *(*LATE, *NULL_DETAILS, *UNCOUNTED, *TURNS),
]
