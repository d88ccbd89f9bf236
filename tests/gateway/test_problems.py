"""What is refused, and how: every error is a problem with a code; and nothing is too large."""

import asyncio
import json
import resource
from typing import Any

import httpx2
import pytest

from perdure.gateway.problems import HINTS, STATUS, Refused, status_of
from perdure.runs.errors import MEANINGS, ErrorCode
from tests.gateway.conftest import Gateway

JSON = {"Content-Type": "application/json"}
START = {"agent": "nobody", "input": "Go."}


def problem(answer: httpx2.Response) -> dict[str, Any]:
    """Return a response's problem, which has everything that it is to have."""
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == answer.status_code
    assert told["type"] == f"urn:perdure:error:{told['code']}"
    assert told["title"] == MEANINGS[ErrorCode(told["code"])][0]
    assert told["detail"]
    assert told["hint"]
    return told


REFUSED: dict[str, tuple[Any, int, str, str]] = {
    "no agent": ({"input": "x"}, 422, "invalid_request", "body.agent"),
    "an unusable agent": ({"agent": "a b", "input": "x"}, 422, "invalid_request", "body.agent"),
    "an unknown field": (START | {"colour": 1}, 422, "unsupported_parameter", "'colour'"),
    "a webhook": (START | {"webhook": "http://x"}, 422, "unsupported_parameter", "'webhook'"),
    "a later start": (START | {"start_after": 5}, 422, "unsupported_parameter", "'start_after'"),
    "an unknown limit": (START | {"limits": {"max": 1}}, 422, "unsupported_parameter", "'max'"),
    "a key in the body": (
        START | {"idempotency_key": "k"},
        422,
        "unsupported_parameter",
        "'idempotency_key'",
    ),
    "a run id": (START | {"run_id": "mine"}, 422, "unsupported_parameter", "'run_id'"),
    "a stored file": (
        START | {"files": [{"name": "a", "stored": {"driver": "x", "claim": {}}}]},
        422,
        "unsupported_parameter",
        "'stored'",
    ),
    "a stored file in the context": (
        START
        | {"context": {"messages": [{"role": "user", "content": "x", "files": [{"name": "a"}]}]}},
        422,
        "unsupported_parameter",
        "'files'",
    ),
    "a file without content": (START | {"files": [{"name": "a"}]}, 422, "invalid_request", "data"),
    "a file that is no base64": (
        START | {"files": [{"name": "a", "data": "&&"}]},
        422,
        "invalid_request",
        "base64",
    ),
    "longer than Temporal counts": (
        START | {"timeouts": {"run_s": 1e300}},
        422,
        "invalid_request",
        "run_s",
    ),
    "no input": ({"agent": "a", "input": " "}, 422, "invalid_request", "empty"),
    "a long wait": (START | {"wait_timeout_s": 301}, 422, "invalid_request", "wait_timeout_s"),
    "wait and stream": (START | {"wait": True, "stream": True}, 422, "invalid_request", "stream"),
    "nobody who could leave": (
        START | {"on_disconnect": "cancel"},
        422,
        "invalid_request",
        "disconnect",
    ),
    "a number as a word": (START | {"wait_timeout_s": "5"}, 422, "invalid_request", "wait_timeout"),
    "a word as a number": (START | {"input": 5}, 422, "invalid_request", "body.input"),
    "a list": ([], 422, "invalid_request", "body"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_an_unusable_start_is_refused_with_its_reason(
    case: str, refusing: httpx2.AsyncClient
) -> None:
    body, status, code, words = REFUSED[case]
    told = problem(await refusing.post("/v1/runs", json=body))
    assert (told["status"], told["code"]) == (status, code)
    assert words in told["detail"]


NO_JSON = {
    "half an object": b'{"agent": "x"',
    "no utf-8": b'{"agent": "\xff"}',
    "half a character": b'{"agent": "x", "input": "\\ud800"}',
    "words": b"hello",
}


@pytest.mark.parametrize("case", NO_JSON)
async def test_what_is_no_json_is_a_bad_request(case: str, refusing: httpx2.AsyncClient) -> None:
    told = problem(await refusing.post("/v1/runs", content=NO_JSON[case], headers=JSON))
    assert (told["status"], told["code"]) == (400, "invalid_request")


PATHS = {
    "nowhere": ("GET", "/v1/nothing", 404, "not_found"),
    "a slash too many": ("GET", "/v1/runs/", 404, "not_found"),
    "a method that is not": ("PUT", "/v1/runs", 405, "method_not_allowed"),
    "no such run": ("GET", "/v1/runs/run_none", 404, "run_not_found"),
    "an id of nothing": ("GET", "/v1/runs/%20", 404, "run_not_found"),
    "a session as a run": ("POST", "/v1/runs/session%2Fx/cancel", 404, "not_found"),
    "an unknown filter": ("GET", "/v1/runs?colour=blue", 422, "unsupported_parameter"),
    "a metadata filter": ("GET", "/v1/runs?metadata[a]=b", 422, "unsupported_parameter"),
    "a limit of none": ("GET", "/v1/runs?limit=0", 422, "invalid_request"),
    "a time without a zone": (
        "GET",
        "/v1/runs?created_after=2026-01-01T00:00:00",
        422,
        "invalid_request",
    ),
    "a cursor of somebody's": ("GET", "/v1/runs?cursor=abc", 422, "invalid_request"),
    "no position": ("GET", "/v1/runs/run_none/events?starting_after=x", 422, "invalid_request"),
    "nothing to change": ("PATCH", "/v1/runs/run_none", 422, "invalid_request"),
}


@pytest.mark.parametrize("case", PATHS)
async def test_every_refusal_has_its_code(case: str, refusing: httpx2.AsyncClient) -> None:
    method, path, status, code = PATHS[case]
    told = problem(await refusing.request(method, path))
    assert (told["status"], told["code"]) == (status, code)


async def test_a_method_that_is_not_served_comes_back_with_those_that_are(
    refusing: httpx2.AsyncClient,
) -> None:
    answer = await refusing.put("/v1/runs/run_1", json={})
    assert problem(answer)["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "DELETE, GET, PATCH"


async def test_what_nobody_expected_is_told_without_details(
    idle: Gateway, refusing: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    app = idle.server.config.app

    @app.get("/broken")  # type: ignore[union-attr]
    async def broken() -> None:
        raise KeyError("a secret of 1234")

    told = problem(await refusing.get("/broken"))
    assert (told["status"], told["code"]) == (500, "internal")
    assert "1234" not in json.dumps(told)
    assert "1234" in caplog.text, "the log has it"


def test_every_code_that_a_caller_can_be_told_has_a_status() -> None:
    told = [code for code in ErrorCode if status_of(Refused(code, "x")) == 500]
    # These are ends of Runs and Steps, which are data of a Run and no answers; or faults of ours.
    assert ErrorCode.INTERNAL in told
    assert not {code for code in told if code.endswith(("_not_found", "_already_resolved"))} - {
        ErrorCode.MODEL_NOT_FOUND,
        ErrorCode.TOOL_NOT_FOUND,
    }
    assert set(HINTS) <= set(STATUS)


def memory() -> int:
    """Return the most memory that this process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


TOO_MUCH: dict[str, tuple[bytes, int]] = {
    "10 MB of input": (b'{"agent":"a","input":"' + b"x" * 10_000_000 + b'"}', 413),
    "10 MB of nothing": (b"x" * 10_000_000, 400),
    "10,000 messages": (
        json.dumps(
            START | {"context": {"messages": [{"role": "user", "content": "x"}] * 10_000}}
        ).encode(),
        413,
    ),
    "1,000 levels": (b'{"agent":"a","input":' + b"[" * 1000 + b"]" * 1000 + b"}", 422),
    "10,000 faults": (
        json.dumps(START | {"context": {"messages": [{"role": "x"}] * 10_000}}).encode(),
        422,
    ),
    "60 MB": (b"x" * 60_000_000, 413),
}


@pytest.mark.parametrize("case", TOO_MUCH)
async def test_what_is_too_large_is_refused(case: str, refusing: httpx2.AsyncClient) -> None:
    """P38."""
    body, status = TOO_MUCH[case]
    told = problem(await refusing.post("/v1/runs", content=body, headers=JSON))
    assert told["status"] == status
    assert len(json.dumps(told)) < 10_000


async def test_refusing_takes_no_memory_for_long(refusing: httpx2.AsyncClient) -> None:
    """P38: what was too large once is not kept."""
    body = TOO_MUCH["10 MB of input"][0]
    for _ in range(3):
        await refusing.post("/v1/runs", content=body, headers=JSON)
    before = memory()
    for _ in range(20):
        await refusing.post("/v1/runs", content=body, headers=JSON)
    assert memory() - before < 60_000, "KiB; two hundred megabytes have come"


async def test_a_body_without_files_has_less_room(refusing: httpx2.AsyncClient) -> None:
    body = b'{"reason":"' + b"x" * 10_000_000 + b'"}'
    told = problem(await refusing.post("/v1/runs/run_none/cancel", content=body, headers=JSON))
    assert (told["status"], told["code"]) == (413, "payload_too_large")


HEADERS = {
    "1 MB in one header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 1_000_000,
    "1 MB of path": b"GET /" + b"x" * 1_000_000,
    "10,000 headers": b"GET /healthz HTTP/1.1\r\n" + b"X-Some: thing of some length\r\n" * 10_000,
}


@pytest.mark.parametrize("case", HEADERS)
async def test_headers_that_are_too_large_are_refused(case: str, idle: Gateway) -> None:
    """P38."""
    host, port = idle.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(HEADERS[case])
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 431 ")
    assert b"application/problem+json" in head


async def test_what_is_no_http_is_told_so(idle: Gateway) -> None:
    host, port = idle.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"hello there\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"invalid_request" in answer
