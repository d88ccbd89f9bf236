"""Data goes through a Run exactly as it was given, or as docs/data.md says it is replaced.

Cases TOOL-14, TOOL-15, TOOL-16, HIST-07, HIST-08, TMPR-19 and GATE-10 of the field, and more.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from perdure import Agent, tool
from perdure.runs.errors import ErrorCode
from perdure.runs.messages import AssistantMessage, MessageCall, ToolMessage, UserMessage
from perdure.runs.run import Run
from perdure.runs.start import ContextBundle
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.scripted_openai import call, chunk, chunks, text, tool_calls
from tests.workflows.exact_values import EXACT, RETURNED, UID, WHEN, Colour, Inner, circular, nested


def agent_returning(value: Any) -> Agent:
    @tool(effect="read")
    def give() -> Any:
        """Give."""
        return value

    return Agent(name="giver", tools=[give])


async def given(engine: Engine, value: Any) -> tuple[Run, str]:
    """Execute a Run whose tool returns a value; return it and what the model read."""
    engine.model.script([tool_calls(call("give", {}, id="a")), text("Done.")])
    async with engine.serving(agent_returning(value)):
        run = await engine.run("giver")
    await assert_strict(engine, run.run_id)
    told: str = engine.model.requests[-1].messages[-1]["content"]
    assert run.status is RunStatus.COMPLETED
    assert run.tool_calls[0].result == told
    assert await engine.manager.result(run.run_id, "a") == told
    return run, told


def payloads(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the payloads anywhere in a history event."""
    if isinstance(value, dict):
        if "metadata" in value and "data" in value:
            yield value
        for each in value.values():
            yield from payloads(each)
    if isinstance(value, list):
        for each in value:
            yield from payloads(each)


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


async def assert_strict(engine: Engine, run_id: str) -> None:
    """Every payload in the history of a Run is strict JSON in UTF-8."""
    seen = 0
    async for event in engine.client.get_workflow_handle(run_id).fetch_history_events():
        for payload in payloads(MessageToDict(event)):
            encoding = base64.b64decode(payload["metadata"]["encoding"])
            if encoding == b"json/plain":
                json.loads(base64.b64decode(payload["data"]).decode(), parse_constant=refuse)
                seen += 1
    assert seen >= 4


@pytest.mark.parametrize("value", EXACT.values(), ids=EXACT.keys())
async def test_variables_arguments_and_result_are_exact(engine: Engine, value: Any) -> None:
    received: list[Any] = []

    @tool(effect="read")
    def echo(value: Any) -> Any:
        """Echo."""
        received.append(value)
        return {"value": value}

    arguments = json.dumps({"value": value}, ensure_ascii=False)
    engine.model.script([tool_calls(call("echo", arguments, id="a")), text("Done.")])
    async with engine.serving(Agent(name="echoer", tools=[echo])):
        run = await engine.run("echoer", context=ContextBundle(variables={"value": value}))
    await assert_strict(engine, run.run_id)
    last = engine.model.requests[-1].messages
    assert received == [value]
    assert type(received[0]) is type(value)
    assert json.loads(last[-1]["content"]) == {"value": value}
    assert json.loads(last[-2]["tool_calls"][0]["function"]["arguments"]) == {"value": value}
    assert run.context.variables == {"value": value}
    assert Run.model_validate_json(run.model_dump_json()) == run


@pytest.mark.parametrize("name", [name for name in EXACT if isinstance(EXACT[name], str)])
async def test_words_and_metadata_are_exact(engine: Engine, name: str) -> None:
    said = EXACT[name]
    engine.model.script([text(said or "-")])
    context = ContextBundle(
        messages=(
            UserMessage(content=said),
            AssistantMessage(
                content=said, tool_calls=(MessageCall(id="a", name="look", arguments="{}"),)
            ),
            ToolMessage(tool_call_id="a", content=said),
        )
    )
    async with engine.serving(Agent(name="listener", instructions=said)):
        run = await engine.run("listener", f"<{said}>", context=context, metadata={said: said})
    await assert_strict(engine, run.run_id)
    sent = [message["content"] for message in engine.model.requests[0].messages]
    assert sent == [said, said, said, said, f"<{said}>"]
    assert (run.input_message, run.output, run.metadata) == (f"<{said}>", said, {said: said})


@pytest.mark.parametrize(("value", "text"), RETURNED, ids=range(len(RETURNED)))
async def test_a_result_is_told_exactly_or_as_documented(
    engine: Engine, value: Any, text: str | None
) -> None:
    run, told = await given(engine, value)
    assert run.tool_calls[0].error is None
    assert told == (text or '{"when":"2026-02-28T23:59:59.123456Z","ratio":null,"amount":"1.10"}')
    if not isinstance(value, str):
        json.loads(told, parse_constant=refuse, parse_int=str)


@pytest.mark.parametrize(
    "value", [object(), b"\xff\xfe", {"a": {1: b"\xff"}}, range(3)], ids=lambda v: type(v).__name__
)
async def test_what_json_can_not_hold_is_told_and_the_run_goes_on(
    engine: Engine, value: Any
) -> None:
    run, told = await given(engine, value)
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is ErrorCode.RESULT_NOT_SERIALISABLE
    assert json.loads(told)["error"]["code"] == "tool_result_not_serialisable"


@pytest.mark.parametrize("levels", [300, 1000, 100_000, None])
async def test_a_result_too_deep_or_without_end_is_told(engine: Engine, levels: int | None) -> None:
    value = circular() if levels is None else nested(levels)
    run, _ = await given(engine, value)
    assert run.tool_calls[0].error is not None
    assert run.tool_calls[0].error.code is ErrorCode.RESULT_NOT_SERIALISABLE


@pytest.mark.parametrize("levels", [150, 190, 300, 1000, 50_000])
async def test_arguments_too_deep_are_refused_and_told(engine: Engine, levels: int) -> None:
    @tool(effect="read")
    def echo(value: Any) -> str:
        """Echo."""
        return "received"

    arguments = '{"value":' + "[" * levels + "]" * levels + "}"
    engine.model.script([tool_calls(call("echo", arguments, id="a")), text("Done.")])
    async with engine.serving(Agent(name="echoer", tools=[echo])):
        run = await engine.run("echoer")
    [asked] = run.tool_calls
    assert run.status is RunStatus.COMPLETED
    assert (asked.result == "received") or (
        asked.error is not None and asked.error.code is ErrorCode.TOOL_ARGUMENTS_INVALID
    )
    assert (asked.result == "received") is (levels < 200)


async def test_lone_surrogates_anywhere_in_a_start_are_replaced(engine: Engine) -> None:
    engine.model.script([text("Read.")])
    context = ContextBundle(
        messages=(UserMessage(content="a \udc9d"),), variables={"b\udc9d": ["c \ud83d"]}
    )
    async with engine.serving(Agent(name="listener")):
        run = await engine.run("listener", "d \udc9d", context=context, metadata={"e": "f \udc9d"})
    assert [m["content"] for m in engine.model.requests[0].messages] == ["a \ufffd", "d \ufffd"]
    assert run.context.variables == {"b\ufffd": ["c \ufffd"]}
    assert run.metadata == {"e": "f \ufffd"}


async def test_a_pair_cut_in_two_by_the_stream_is_one_emoji(engine: Engine) -> None:
    """Case HIST-08."""
    pieces = [chunk({"content": "\ud83d"}), chunk({"content": "\ude00 \udc97"})]
    engine.model.script([chunks(*pieces, chunk({}, finish_reason="stop"))])
    async with engine.serving(Agent(name="speaker")):
        run = await engine.run("speaker")
    assert run.output == "😀 \ufffd"


async def test_values_in_variables_become_what_json_has_for_them(engine: Engine) -> None:
    """Case TMPR-19: what the caller gave, and what everyone reads."""
    engine.model.script([text("Read.")])
    variables = {
        "when": WHEN,
        "amount": Decimal("1.10"),
        "id": UID,
        "colour": Colour.RED,
        "nan": float("nan"),
        "bytes": b"text",
        "tuple": (1, None),
        "model": Inner(when=WHEN),
    }
    async with engine.serving(Agent(name="listener")):
        run = await engine.run("listener", context=ContextBundle(variables=variables))
    assert run.context.variables == {
        "when": "2026-02-28T23:59:59.123456Z",
        "amount": "1.10",
        "id": str(UID),
        "colour": "red",
        "nan": None,
        "bytes": "text",
        "tuple": [1, None],
        "model": {"when": "2026-02-28T23:59:59.123456Z", "ratio": 1.5, "amount": "1.10"},
    }
