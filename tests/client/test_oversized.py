"""What is too large, too deep or no JSON is refused at once, with a code, and starts nothing."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent
from perdure.client.listing import RunFilter
from perdure.runs.errors import ErrorCode, InvalidRequest
from perdure.runs.limits import (
    MAX_CONTEXT_MESSAGES,
    MAX_DEPTH,
    MAX_METADATA_BYTES,
    MAX_REASON_BYTES,
)
from perdure.runs.messages import UserMessage
from perdure.runs.start import ContextBundle
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import Gate, text
from tests.workflows.exact_values import circular, nested

AGENT = Agent(name="speaker")
MB = 1_000_000
TOO_LARGE, INVALID = ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.PROVIDER_REFUSED_REQUEST


def messages(count: int) -> ContextBundle:
    return ContextBundle(messages=tuple(UserMessage(content="hi") for _ in range(count)))


def variables(value: Any) -> ContextBundle:
    return ContextBundle(variables={"value": value})


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (lambda: {"text": "x" * (10 * MB)}, TOO_LARGE),
        (lambda: {"text": "é" * (21 * MB // 10)}, TOO_LARGE),
        (lambda: {"text": "\0" * MB}, TOO_LARGE),
        (lambda: {"context": messages(10_000)}, TOO_LARGE),
        (lambda: {"context": messages(MAX_CONTEXT_MESSAGES + 1)}, TOO_LARGE),
        (lambda: {"context": variables("x" * (10 * MB))}, TOO_LARGE),
        (lambda: {"context": variables(list(range(MB)))}, TOO_LARGE),
        (lambda: {"context": variables(nested(MAX_DEPTH))}, INVALID),
        (lambda: {"context": variables(nested(190))}, INVALID),
        (lambda: {"context": variables(nested(253))}, INVALID),
        (lambda: {"context": variables(nested(1000))}, INVALID),
        (lambda: {"context": variables(nested(100_000))}, INVALID),
        (lambda: {"context": variables(circular())}, INVALID),
        (lambda: {"context": variables(object())}, INVALID),
        (lambda: {"context": variables(b"\xff")}, INVALID),
        (lambda: {"context": variables(10**5000)}, INVALID),
        (lambda: {"metadata": {"note": "x" * MAX_METADATA_BYTES}}, TOO_LARGE),
        (lambda: {"metadata": {"é" * MAX_METADATA_BYTES: ""}}, TOO_LARGE),
        (lambda: {"run_id": "x" * (10 * MB)}, INVALID),
        (lambda: {"run_id": "x" * 129}, INVALID),
        (lambda: {"session_id": "x" * 129}, INVALID),
        (lambda: {"agent": "x" * 129}, INVALID),
    ],
)
async def test_it_is_refused_within_a_second_and_nothing_is_started(
    engine: Engine, options: Callable[[], dict[str, Any]], code: ErrorCode
) -> None:
    given = {"agent": "speaker", "text": "Go.", "session_id": f"s-{engine.task_queue}"} | options()
    async with engine.serving(AGENT):
        begun = time.thread_time()  # whatever else the machine does meanwhile
        with pytest.raises(InvalidRequest) as refused:
            await engine.start(**given)
        assert time.thread_time() - begun < 1
        assert refused.value.code is code
        assert refused.value.hint
        assert len(str(refused.value)) < 500
        # A start of the same session that is good comes into the list, and it alone.
        engine.model.script([text("Done.")])
        run = await engine.run("speaker", session_id=f"s-{engine.task_queue}")
    found = await engine.manager.list_runs(RunFilter(session_id=f"s-{engine.task_queue}"))
    assert {each.run_id for each in found.runs} <= {run.run_id}
    assert len(engine.model.requests) == 1


async def test_the_largest_of_each_is_accepted(engine: Engine) -> None:
    engine.model.script([text("Read.")])
    given = messages(MAX_CONTEXT_MESSAGES).model_copy(
        update={"variables": {"value": nested(MAX_DEPTH - 2)}}
    )
    name = "a" + "x" * 127
    async with engine.serving(Agent(name=name)):
        run = await engine.run(
            name,
            "😀" * 1000,
            context=given,
            run_id=name,
            metadata={"note": "x" * (MAX_METADATA_BYTES - 20)},
        )
    assert run.status is RunStatus.COMPLETED
    assert run.context == given
    assert len(engine.model.requests[0].messages) == MAX_CONTEXT_MESSAGES + 1


async def test_a_reason_of_10_mb_is_refused_and_the_run_goes_on(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Done.").hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("speaker")
        await gate.reached
        with pytest.raises(InvalidRequest) as refused:
            await engine.manager.cancel(run_id, "x" * (10 * MB))
        gate.open()
        run = await engine.ended(run_id)
    assert refused.value.code is TOO_LARGE
    assert run.status is RunStatus.COMPLETED


@pytest.mark.parametrize("reason", ["x" * MAX_REASON_BYTES, "😀 \0 é", "half \udc9d"])
async def test_a_reason_is_kept_as_it_was_given(engine: Engine, reason: str) -> None:
    gate = Gate()
    engine.model.script([text("Done.").hold(gate)])
    async with engine.serving(AGENT):
        run_id = await engine.start("speaker")
        await gate.reached
        await engine.manager.cancel(run_id, reason)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.CANCELLED
    assert run.cancel is not None
    assert run.cancel.reason == reason.replace("\udc9d", "\ufffd")


@pytest.mark.parametrize("letter", ["x", "é", "😀", "\0", '"'])
async def test_the_line_for_the_temporal_ui_stays_within_its_limit(
    engine: Engine, letter: str
) -> None:
    name = "n" * 128
    engine.model.script([text("Done.")])
    async with engine.serving(Agent(name=name)):
        run = await engine.run(name, letter * 500 + ".")
    described = await engine.client.get_workflow_handle(run.run_id).describe()
    shown = described.raw_description.execution_config.user_metadata.summary
    assert 150 < len(shown.data) <= 400
