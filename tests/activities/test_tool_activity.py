"""A tool's activity: whatever a user's function does, the model gets one text to read."""

import asyncio
import json
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import activity
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from perdure.activities.redaction import Redactor
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings, tool_activity
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.context import tool_context
from perdure.agents.tool import AnyTool, tool
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode
from perdure.runs.files import StoredText
from perdure.runs.limits import MAX_RESULT_BYTES
from perdure.runs.steps import ToolReply

LIMIT_S = 10.0
AGENTS = {"helper": Agent(name="helper")}
SECRET = "hunter2-hunter2"  # noqa: S105 - made up
COLOUR: ContextVar[str] = ContextVar("COLOUR")


class Point(BaseModel):
    x: float
    y: float | None = None


@dataclass
class Named:
    name: str
    at: list[float]


@pytest.fixture
def threads() -> Threads:
    return Threads()


async def kept(text: bytes, run_id: str) -> StoredText:
    return StoredText(bytes=len(text), driver="none", claim={"run": run_id})


def surroundings(threads: Threads, *secrets: str) -> Surroundings:
    return Surroundings(AGENTS.get, threads, Redactor(secrets), Transcripts(), kept)


async def executed(
    what: AnyTool,
    threads: Threads,
    arguments: str = "{}",
    environment: ActivityEnvironment | None = None,
) -> ToolReply:
    asked = {"agent": "helper", "step": 2, "turn": 1, "call_id": "a", "arguments": arguments}
    request = ToolRequest(name=what.name, **asked)
    run = tool_activity(what, surroundings(threads, SECRET))
    async with asyncio.timeout(LIMIT_S):
        return await (environment or ActivityEnvironment()).run(run, request)


def returning(value: Any) -> AnyTool:
    @tool
    def give() -> Any:
        """Give."""
        return value

    return give


def raising(exc: BaseException, *, is_async: bool) -> AnyTool:
    """Return a tool that raises."""

    @tool(name="break")
    def sync() -> None:
        """Break."""
        raise exc

    @tool(name="break")
    async def later() -> None:
        """Break."""
        raise exc

    return later if is_async else sync


def code_of(reply: ToolReply) -> ErrorCode | None:
    """Return the code of a reply's error; the model is told of the same one."""
    if reply.error is None:
        return None
    assert json.loads(reply.text)["error"]["code"] == reply.error.code
    return reply.error.code


def test_an_activity_has_its_tool_s_name_on_the_wire(threads: Threads) -> None:
    run = tool_activity(returning(1), surroundings(threads))
    definition = getattr(run, "__temporal_activity_definition")
    assert definition.name == "tool.give"


async def test_a_sync_tool_runs_in_a_thread_with_checked_arguments(threads: Threads) -> None:
    @tool
    def add(a: int, b: int = 2) -> dict[str, Any]:
        """Add."""
        return {"sum": a + b, "aside": threading.current_thread() is not threading.main_thread()}

    reply = await executed(add, threads, '{"a":1}')
    assert reply == ToolReply(text='{"sum":3,"aside":true}', attempt=1)


async def test_a_sync_tool_sees_the_context_of_its_caller(threads: Threads) -> None:
    @tool
    def look() -> str:
        """Look."""
        return f"{COLOUR.get('none')} {activity.info().attempt}"

    COLOUR.set("blue")
    assert (await executed(look, threads)).text == "blue 1"


async def test_an_async_tool_runs_on_the_event_loop(threads: Threads) -> None:
    @tool
    async def look(at: str) -> str:
        """Look."""
        return f"{at} {asyncio.get_running_loop() is not None}"

    assert (await executed(look, threads, '{"at":"x"}')).text == "x True"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        ("grüße 😀", "grüße 😀"),
        (None, "null"),
        (True, "true"),
        (9223372036854775807, "9223372036854775807"),
        (2**70, "1180591620717411303424"),
        ([1, {"a": "ä"}], '[1,{"a":"ä"}]'),
        (Point(x=1), '{"x":1.0,"y":null}'),
        ([Point(x=1, y=2)], '[{"x":1.0,"y":2.0}]'),
    ],
)
async def test_text_stays_and_anything_else_is_strict_json(
    value: Any, text: str, threads: Threads
) -> None:
    """Case TOOL-14 among others."""
    assert await executed(returning(value), threads) == ToolReply(text=text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"ratio": float("nan"), "rows": [1.0, float("inf")]}, '{"ratio":null,"rows":[1.0,null]}'),
        (Point(x=float("nan"), y=float("-inf")), '{"x":null,"y":null}'),
        (float("nan"), "null"),
    ],
)
async def test_what_is_no_number_is_null(value: Any, text: str, threads: Threads) -> None:
    """Case TOOL-15."""
    assert await executed(returning(value), threads) == ToolReply(text=text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ok \udc9d", "ok \ufffd"),
        ("\ud83d\ude00", "😀"),
        ({"name": "ok \udc9d"}, '{"name":"ok \ufffd"}'),
        (["\ud83d"], '["\ufffd"]'),
        (Named(name="ok \udc9d", at=[float("nan")]), '{"name":"ok \ufffd","at":[null]}'),
    ],
)
async def test_lone_surrogates_are_replaced_at_any_depth(
    value: Any, text: str, threads: Threads
) -> None:
    """Case HIST-07: file names that are no UTF-8 arrive as these."""
    assert await executed(returning(value), threads) == ToolReply(text=text)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "exc",
    [
        ValueError("no luck"),
        SystemExit("no luck"),
        KeyboardInterrupt("no luck"),
        StopIteration("no luck"),
        StopAsyncIteration("no luck"),
        asyncio.CancelledError("no luck"),
        TimeoutError("no luck"),
        RecursionError("no luck"),
        ExceptionGroup("no luck", [ValueError("inner")]),
    ],
)
async def test_whatever_a_tool_raises_is_told_and_stops_nothing(
    exc: BaseException, is_async: bool, threads: Threads
) -> None:
    reply = await executed(raising(exc, is_async=is_async), threads)
    assert code_of(reply) is ErrorCode.TOOL_FAILED
    assert type(exc).__name__ in reply.text
    assert (await executed(returning("alive"), threads)).text == "alive"


async def test_an_error_s_text_is_redacted_cut_and_valid(threads: Threads) -> None:
    text = f"password {SECRET} \udc9d " + "x" * (2 * MAX_RESULT_BYTES)
    reply = await executed(raising(ValueError(text), is_async=False), threads)
    assert code_of(reply) is ErrorCode.TOOL_FAILED
    assert SECRET not in reply.text
    assert len(reply.text.encode()) < MAX_RESULT_BYTES + 500
    assert ToolReply.model_validate_json(reply.model_dump_json()) == reply


@pytest.mark.parametrize("value", [object(), {1: object()}, lambda: None, {"a": {object()}}])
async def test_what_json_can_not_hold_is_told(value: Any, threads: Threads) -> None:
    reply = await executed(returning(value), threads)
    assert code_of(reply) is ErrorCode.RESULT_NOT_SERIALISABLE


async def test_a_result_that_holds_itself_is_told(threads: Threads) -> None:
    value: list[Any] = []
    value.append(value)
    assert code_of(await executed(returning(value), threads)) in (
        ErrorCode.RESULT_NOT_SERIALISABLE,
        ErrorCode.TOOL_FAILED,
    )


@pytest.mark.parametrize("letter", ["a", "ä", "漢", "😀"])
async def test_a_result_that_is_too_large_is_cut_in_the_middle_and_says_so(
    letter: str, threads: Threads
) -> None:
    value = "<" + letter * MAX_RESULT_BYTES + ">"
    text = (await executed(returning(value), threads)).text
    assert text.startswith("<" + letter)
    assert text.endswith(letter + ">")
    assert f"of {len(value.encode())} bytes left out" in text
    assert MAX_RESULT_BYTES - 10 < len(text.encode()) < MAX_RESULT_BYTES + 100


async def test_a_result_of_just_the_limit_is_whole(threads: Threads) -> None:
    value = "x" * MAX_RESULT_BYTES
    assert (await executed(returning(value), threads)).text == value


@pytest.mark.parametrize("shuts_down", [False, True])
async def test_a_cancel_of_the_run_is_told_and_a_worker_s_end_leaves_the_call_to_another(
    shuts_down: bool, threads: Threads
) -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    environment = ActivityEnvironment()
    task = asyncio.create_task(executed(wait, threads, environment=environment))
    async with asyncio.timeout(LIMIT_S):
        await started.wait()
        environment.cancel(
            ActivityCancellationDetails(cancel_requested=not shuts_down, worker_shutdown=shuts_down)
        )
        if shuts_down:
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            # Nothing says that it may be run again, so nobody knows whether it had its effect.
            assert code_of(await task) is ErrorCode.OUTCOME_UNKNOWN


async def test_a_cancel_does_not_wait_for_a_tool_in_a_thread(threads: Threads) -> None:
    started, released = threading.Event(), threading.Event()

    @tool(effect="read")
    def wait() -> None:
        """Wait."""
        started.set()
        assert tool_context().wait_cancelled(LIMIT_S)
        released.wait(LIMIT_S)

    environment = ActivityEnvironment()
    task = asyncio.create_task(executed(wait, threads, environment=environment))
    assert await asyncio.to_thread(started.wait, LIMIT_S)
    environment.cancel(ActivityCancellationDetails(cancel_requested=True))
    async with asyncio.timeout(LIMIT_S):
        assert code_of(await task) is ErrorCode.CANCELLED
    released.set()
