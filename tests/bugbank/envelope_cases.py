"""RESP-08 and RESP-10: answers of status 200 that are errors, or no answers at all."""

from typing import Any

from tests.bugbank.case import END, FAST_MS, Case, body, ends, finished, lost
from tests.harness.scripted_openai import Reply, raw

FINAL: dict[str, tuple[Any, str]] = {
    "400": ({"message": "No.", "code": 400}, "invalid_request"),
    "401 as text": ({"message": "Bad key", "code": "401"}, "llm_auth"),
    "402": ({"message": "Balance", "code": 402}, "quota_exhausted"),
    "by type": ({"message": "No.", "type": "invalid_request_error"}, "invalid_request"),
    "by code": ({"message": "Long", "code": "context_length_exceeded"}, "context_overflow"),
    "a key": ({"message": "Bad key", "type": "authentication_error"}, "llm_auth"),
    "status apart": ({"message": "No.", "code": "x", "status": 403}, "llm_auth"),
}
PASSING: dict[str, Any] = {
    "429": {"error": {"message": "Provider returned error", "code": 429}},
    "429 as text": {"error": {"message": "Provider returned error", "code": "429"}},
    "429 as a float": {"error": {"message": "Provider returned error", "code": 429.0}},
    "502": {"error": {"message": "Bad gateway", "code": 502}},
    "no code": {"error": {"message": "boom", "code": None, "metadata": None}},
    "text": {"error": "boom"},
    "a list": {"error": ["boom"]},
    "a list around it": {"error": [{"message": "boom", "code": 500}]},
    "true": {"error": True},
    "with choices": {"error": {"code": 500}, "choices": None},
    "beside an answer": {"error": {"code": 500}, **finished("stop", {"content": "Never."})},
    "in the choice": {"choices": [{"error": {"code": 502}, "finish_reason": "error"}]},
    "without an envelope": {"object": "error", "message": "boom", "code": 503},
}
ENVELOPES = [
    *(
        ends("RESP-08", what, code, body({"error": error}, x_request_id="r7"), error_holds=("r7",))
        for what, (error, code) in FINAL.items()
    ),
    *lost("RESP-08", {what: body(each) for what, each in PASSING.items()}, complete=None),
    ends(
        "RESP-08",
        "without an envelope, final",
        "invalid_request",
        body({"object": "error", "message": "No.", "type": "BadRequestError", "code": 400}),
        error_holds=("No.",),
    ),
]


def page(data: bytes, content_type: str) -> Reply:
    """Answer with something that no model server sends."""
    return raw(data, content_type).with_headers(retry_after_ms=FAST_MS, x_request_id="req_7")


KEY = "sk-FAKE1234567890abcd"
LOGIN = f"<html>login {KEY}</html>".encode()
PAGES: dict[str, Reply] = {
    "HTML": page(LOGIN, "text/html; charset=utf-8"),
    "HTML as a stream": page(LOGIN, "text/event-stream"),
    "HTML as JSON": page(LOGIN, "application/json"),
    "text": page(b"OK", "text/plain"),
    "nothing": page(b"", "application/json"),
    "bytes": page(b"\x89PNG\xff\xfe\x00", "image/png"),
    "JSON of another kind": page(b'{"ok": true}', "application/json"),
    "choices of another kind": page(b'{"choices": {"0": {}}}', "application/json"),
    "a list": page(b"[1]", "application/json"),
}
WRONG_ADDRESS = [
    ends(
        "RESP-10",
        what,
        "llm_bad_response",
        *[reply] * 2,
        error_holds=("OPENAI_BASE_URL", "req_7", reply.body.headers["content-type"]),  # type: ignore[union-attr]
        secret=KEY,
    )
    for what, reply in PAGES.items()
] + [ends("RESP-10", "once, then well", None, PAGES["HTML"], END, output="Done.")]

CASES: list[Case] = [*ENVELOPES, *WRONG_ADDRESS]
