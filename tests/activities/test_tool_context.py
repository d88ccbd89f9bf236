"""What a worker tells a tool, what the tool says meanwhile, and which results there are."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from temporalio.testing import ActivityEnvironment

from perdure import ToolContext, tool, tool_context
from perdure.activities.heartbeat import Progress
from perdure.activities.redaction import MASK, Redactor
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings, tool_activity
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.tool import AnyTool
from perdure.runs.contract import ToolRequest
from perdure.runs.errors import ErrorCode
from perdure.runs.steps import StoredText, ToolReply

LIMIT_S = 10.0
TOKEN = 'bank/"tøken"+1'  # noqa: S105 - made up; what JSON and addresses write in other ways
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


@dataclass
class Row:
    at: datetime
    cost: Decimal


async def kept(text: bytes, run_id: str) -> StoredText:
    assert TOKEN.encode() not in text
    return StoredText(bytes=len(text), driver="none", claim={"run": run_id})


async def executed(
    what: AnyTool,
    environment: ActivityEnvironment | None = None,
    threads: Threads | None = None,
    **given: Any,
) -> ToolReply:
    """Run the activity of a tool, within bounds."""
    asked = {"agent": "helper", "step": 2, "turn": 1, "call_id": "a", "arguments": "{}"}
    request = ToolRequest(name=what.name, **(asked | given))
    secrets = {"bank": TOKEN}
    redact = Redactor(secrets.values())
    agents = {"helper": Agent(name="helper")}
    chosen = threads or Threads()
    surroundings = Surroundings(agents.get, chosen, redact, Transcripts(), kept, secrets)
    run = tool_activity(what, surroundings)
    async with asyncio.timeout(LIMIT_S):
        return await (environment or ActivityEnvironment()).run(run, request)


def returning(value: Any) -> AnyTool:
    """Return a tool that returns a value."""

    @tool
    def give() -> Any:
        """Give."""
        return value

    return give


async def test_a_tool_is_told_of_its_run_its_call_and_its_time() -> None:
    seen: list[ToolContext] = []

    @tool
    def look(city: str, context: ToolContext) -> bool:
        """Look."""
        seen.append(context)
        return context is tool_context()

    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info,
        workflow_id="run-1",
        attempt=2,
        started_time=MOMENT,
        start_to_close_timeout=timedelta(seconds=7),
    )
    reply = await executed(
        look,
        environment,
        arguments='{"city":"Oslo"}',
        step=4,
        turn=3,
        session_id="talk",
        idempotency_key="run-1:3:a",
        variables={"tenant": "acme"},
    )
    assert reply == ToolReply(text="true", attempt=2)
    (told,) = seen
    assert (told.run_id, told.session_id, told.agent) == ("run-1", "talk", "helper")
    assert (told.step, told.turn, told.call_id, told.attempt) == (4, 3, "a", 2)
    assert (told.idempotency_key, told.variables) == ("run-1:3:a", {"tenant": "acme"})
    assert told.deadline == MOMENT + timedelta(seconds=7)
    assert (told.cancelled, told.last_progress) == (False, None)


@pytest.mark.parametrize("is_async", [False, True])
async def test_progress_goes_out_with_the_heartbeats(is_async: bool) -> None:
    beats: asyncio.Queue[Progress] = asyncio.Queue()
    goes_on = asyncio.Event()

    @tool(name="count")
    def sync(context: ToolContext) -> str:
        """Count."""
        for number in range(1000):
            context.progress(f"{number} of 1000 with {TOKEN}", number / 1000)
        context.wait_cancelled(0.5)
        return "done"

    @tool(name="count")
    async def later(context: ToolContext) -> str:
        """Count."""
        for number in range(1000):
            context.progress(f"{number} of 1000 with {TOKEN}", number / 1000)
        await goes_on.wait()
        return "done"

    environment = ActivityEnvironment()
    environment.on_heartbeat = beats.put_nowait
    task = asyncio.create_task(executed(later if is_async else sync, environment))
    async with asyncio.timeout(LIMIT_S):
        told = await beats.get()
        goes_on.set()
        assert (await task).text == "done"
    expected = Progress(message=f"999 of 1000 with {MASK}", fraction=0.999, attempt=1)
    assert told == expected


def test_a_heartbeat_without_progress_is_as_small_as_before() -> None:
    assert set(json.loads(Progress().model_dump_json())) == {
        "was_answering",
        "failures",
        "attempt",
    }


@pytest.mark.parametrize("raises", [False, True])
async def test_a_secret_is_given_to_the_tool_and_to_nobody_else(raises: bool) -> None:
    @tool
    def spill(context: ToolContext) -> Any:
        """Spill."""
        said = {"plain": f"<{context.secret('BANK')}>", "filler": "x" * 70_000}
        if raises:
            raise ValueError(said)
        return said

    reply = await executed(spill)
    assert f"<{MASK}>" in reply.text
    written = reply.model_dump_json()
    assert "ken" not in re.sub(r"\\u[0-9a-f]{4}", "", written)
    assert reply.error is not None if raises else reply.full is not None


async def test_text_that_only_looks_like_a_key_is_a_good_result() -> None:
    text = "sk-learn-is-a-library and pk_customer_orders a column"
    assert (await executed(returning(text))).text == text


async def test_a_secret_that_is_not_there_is_told_with_the_way_out() -> None:
    @tool
    def ask() -> str:
        """Ask."""
        return tool_context().secret("shop")

    reply = await executed(ask)
    assert reply.error is not None
    assert reply.error.code is ErrorCode.TOOL_FAILED
    assert "PERDURE_SECRET_SHOP" in reply.text


def counting() -> Iterator[int]:
    yield from (1, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MOMENT, '"2026-01-02T03:04:05Z"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (timedelta(minutes=2), '"PT2M"'),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Path("/a/b"), '"/a/b"'),
        (Colour.RED, '"red"'),
        ({3}, "[3]"),
        ((1, "a"), '[1,"a"]'),
        (b"as text", '"as text"'),
        (Row(MOMENT, Decimal("2.5")), '{"at":"2026-01-02T03:04:05Z","cost":"2.5"}'),
        ({1: "a", Colour.RED: "b"}, '{"1":"a","red":"b"}'),
        (counting(), "[1,2]"),
    ],
)
async def test_results_of_all_kinds_have_one_way_to_be_written(value: Any, text: str) -> None:
    assert await executed(returning(value)) == ToolReply(text=text)


async def test_bytes_that_are_no_text_are_told() -> None:
    reply = await executed(returning(b"\xff\xfe"))
    assert reply.error is not None
    assert reply.error.code is ErrorCode.RESULT_NOT_SERIALISABLE


async def test_a_function_that_hands_back_a_coroutine_is_waited_for() -> None:
    async def inner() -> str:
        return "from within"

    @tool
    def wrapped() -> Any:
        """Wrapped by a decorator that is not async."""
        return inner()

    assert (await executed(wrapped)).text == "from within"


async def test_an_async_generator_is_no_result() -> None:
    @tool
    async def stream() -> AsyncIterator[int]:
        """Stream."""
        yield 1

    reply = await executed(stream)
    assert reply.error is not None
    assert reply.error.code is ErrorCode.RESULT_NOT_SERIALISABLE


async def test_a_worker_with_too_many_stuck_threads_says_so() -> None:
    reply = await executed(returning(1), threads=Threads(max_left_behind=1))
    assert reply.error is None
    stuck, goes_on = Threads(max_left_behind=1), asyncio.Event()

    @tool(effect="read")
    def hang(context: ToolContext) -> None:
        """Hang."""
        loop.call_soon_threadsafe(goes_on.set)
        assert context.wait_cancelled(LIMIT_S)
        may_end.wait_cancelled(LIMIT_S)

    loop, may_end, environment = asyncio.get_running_loop(), ToolContext(), ActivityEnvironment()
    task = asyncio.create_task(executed(hang, environment, stuck))
    await goes_on.wait()
    environment.cancel()
    assert (await task).stopped
    reply = await executed(returning(1), threads=stuck)
    assert reply.error is not None
    assert reply.error.code is ErrorCode.WORKER_BUSY
    may_end.cancel()
