"""Every case of the bank, end to end: real server, real worker, real HTTP."""

import asyncio
import json
from typing import Any

import pytest

from tests.bugbank import (
    envelope_cases,
    hist_cases,
    http_cases,
    id_cases,
    number_cases,
    piece_cases,
    reason_cases,
    resp_cases,
    strm_cases,
    tool_cases,
    usage_cases,
)
from tests.bugbank.case import Case
from tests.bugbank.playing import Asked

CASES: list[Case] = [
    *(*tool_cases.CASES, *id_cases.CASES, *number_cases.CASES),
    *(*resp_cases.CASES, *envelope_cases.CASES, *reason_cases.CASES),
    *hist_cases.CASES,
    *(*strm_cases.CASES, *piece_cases.CASES, *usage_cases.CASES),
    *http_cases.CASES,
]

LIMIT_S = 60.0


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_report_from_production_has_its_right_end(
    case: Case, played: dict[str, asyncio.Task[Asked]]
) -> None:
    async with asyncio.timeout(LIMIT_S):
        asked = await asyncio.shield(played[str(case)])
    run = asked.run
    assert (run.status, run.error and run.error.code) == (case.status, case.code)
    assert len(asked.requests) == (len(case.replies) if case.requests is None else case.requests)
    assert asked.executed == list(case.executed)
    check_output(case, asked)
    check_calls(case, asked)
    check_steps(case, asked)
    check_texts(case, asked)
    check_kept(case, asked)


def check_output(case: Case, asked: Asked) -> None:
    """Check what the Run concluded; INV-2: never with nothing."""
    run = asked.run
    if run.status == "completed":
        assert run.output
    if case.output is not None:
        assert run.output == case.output


def check_calls(case: Case, asked: Asked) -> None:
    """Check the tool calls that were asked for."""
    if case.calls is not None:
        calls = asked.run.tool_calls
        assert [facts(c, want) for c, want in zip(calls, case.calls, strict=True)] == [
            dict(want) for want in case.calls
        ]


def facts(call: Any, wanted: Any) -> dict[str, Any]:
    """Return the fields of a tool call that a case speaks of."""
    known = {**call.model_dump(), "code": call.error and call.error.code.value}
    return {name: known[name] for name in wanted}


def check_steps(case: Case, asked: Asked) -> None:
    """Check the model Step that the case is about, and the totals."""
    steps = [step for step in asked.run.steps if step.kind == "model"]
    about = next((step for step in reversed(steps) if step.text != "Done."), steps[-1])
    assert {name: getattr(about, name) for name in case.step} == dict(case.step)
    if case.usage is not None:
        usage = asked.run.usage
        assert (usage.input_tokens, usage.output_tokens, usage.complete) == case.usage
    if case.complete is not None:
        assert asked.run.usage.complete is case.complete


def check_texts(case: Case, asked: Asked) -> None:
    """Check what was sent."""
    last = asked.requests[-1].raw.decode()
    for words in case.next_request:
        assert words in last
    for words in case.never_sent:
        assert all(words not in request.raw.decode() for request in asked.requests)


def check_kept(case: Case, asked: Asked) -> None:
    """INV-3 and INV-5: what the provider said last is kept with the error, without secrets."""
    run = asked.run
    for words in case.error_holds:
        assert run.error is not None
        assert words in f"{run.error} {json.dumps(run.error.details, ensure_ascii=False)}"
    for step in run.steps:
        if step.kind == "model" and step.status == "failed" and not case.no_answer:
            assert step.error is not None
            assert set(step.error.details) >= {"status", "request_id", "body"}
            assert len(step.error.details["body"]) <= 4096
    written = "".join([run.model_dump_json(), *asked.histories])
    assert not case.secret or case.secret not in written
    for words in case.history_holds:
        assert words in "".join(asked.histories)
