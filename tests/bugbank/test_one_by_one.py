"""The cases of the bank that are not about one answer: time, connections, cancels, memory."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from itertools import pairwise

import httpx2
import openai
import pytest
from temporalio.api.enums.v1 import PendingActivityState

from perdure import Agent, tool
from perdure.activities.chat_client import ChatClient
from perdure.activities.openai_chat import Answer
from perdure.activities.transcripts import Transcripts
from perdure.runs.messages import wire
from perdure.runs.transcript import messages
from tests.activities.asking import BODY, HEL, KEY, PATIENT, ask, refused
from tests.activities.streams import entry
from tests.bugbank.agents import REASONER
from tests.bugbank.case import END, FAST_MS, asked
from tests.harness.engine import Engine, soon
from tests.harness.recorded import parse_body
from tests.harness.scripted_openai import ScriptedOpenAI, call, chunks, status, text, tool_calls
from tests.harness.transcript_rules import check_request

AGENT = Agent(name="patient", instructions="Help.")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [({"retry-after-ms": "150"}, 0.15), ({"retry-after": "1"}, 1.0), ({"retry-after": "0.4"}, 0.4)],
)
async def test_http_01_no_attempt_comes_earlier_than_asked(
    headers: dict[str, str], wait_s: float, engine: Engine
) -> None:
    engine.model.script([*[status(429, headers=headers)] * 2, END])
    async with engine.serving(AGENT):
        run = await engine.run("patient")
    assert run.output == "Done."
    arrived = [request.arrived_at for request in engine.model.requests]
    gaps = [later - earlier for earlier, later in pairwise(arrived)]
    assert len(gaps) == 2
    assert all(wait_s <= gap <= wait_s * 1.2 + 5 for gap in gaps), gaps


async def test_http_01_a_wait_until_a_date_holds_no_slot(engine: Engine) -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    engine.model.script([status(429, headers={"retry-after": until}), END])
    async with engine.serving(AGENT):
        run_id = await engine.start("patient")
        handle = engine.client.get_workflow_handle(run_id)

        async def waiting() -> bool:
            pending = (await handle.describe()).raw_description.pending_activities
            scheduled = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
            return [(a.state, a.attempt) for a in pending] == [(scheduled, 2)]

        await soon(waiting)
        run = await engine.ended(run_id)
    assert run.output == "Done."
    early_s = (
        parsedate_to_datetime(until).timestamp()
        - time.time()
        + (time.monotonic() - engine.model.requests[1].arrived_at)
    )
    assert early_s <= 0


@pytest.fixture
async def narrow(model: ScriptedOpenAI) -> AsyncIterator[ChatClient]:
    """The workers' client with a pool of two connections."""
    chat = ChatClient(KEY, model.base_url)
    default = chat._client
    limits = httpx2.Limits(max_connections=2)
    chat._client = default.copy(http_client=openai.DefaultAsyncHttpxClient(limits=limits))
    yield chat
    await chat.close()
    await default.close()


async def test_strm_15_stopped_and_broken_streams_give_their_connections_back(
    narrow: ChatClient, model: ScriptedOpenAI
) -> None:
    stopped, broken = chunks(HEL).hang(1), chunks(HEL, b"data: <html>\n\n").hang(2)
    model.script([*[stopped] * 2, broken, *[text("Hi.")] * 3])
    for number in (1, 2):
        task = asyncio.create_task(narrow.ask(BODY, Answer(), PATIENT))
        await model.wait_for_requests(number)
        task.cancel()
        await asyncio.wait([task])
    await refused(narrow)
    assert [(await ask(narrow)).text for _ in range(3)] == ["Hi."] * 3
    async with asyncio.timeout(20):
        while len(model.connections) > 1:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)


async def test_hist_09_every_call_has_an_answer_after_a_cancel(engine: Engine) -> None:
    begun: list[str] = []

    @tool
    async def wait(name: str) -> str:
        """Wait, but for `now`."""
        begun.append(name)
        if name != "now":
            await asyncio.sleep(60)
        return "waited"

    waiting = [call("wait", {"name": name}) for name in ("now", "long", "longer")]
    engine.model.script([tool_calls(*waiting)])
    async with engine.serving(Agent(name="waiter", tools=[wait])):
        run_id = await engine.start("waiter")

        async def under_way() -> bool:
            return (await engine.manager.get_run(run_id)).tool_calls[0:1] != () and len(begun) == 3

        await soon(under_way)
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
    assert run.status == "cancelled"
    assert [c.status for c in run.tool_calls] == ["completed", "cancelled", "cancelled"]
    kept = b'{"messages":[' + b",".join(wire(message) for message in messages(run)) + b"]}"
    body, violations = parse_body(kept)
    assert violations + check_request(body) == []
    # The tool is `unsafe`, so it may have had its effect, for all we know.
    assert '"outcome_unknown"' in body["messages"][-1]["content"]


async def test_hist_05_what_is_sent_back_survives_a_worker_that_forgets(engine: Engine) -> None:
    thought = asked(entry("c1", "ping", "{}"), reasoning_content="think")
    engine.model.script([thought, thought.with_headers(retry_after_ms=FAST_MS), END])
    engine.transcripts = Transcripts(max_bytes=0, result_bytes=0)
    async with engine.serving(REASONER):
        run = await engine.run("reasoner")
    assert run.output == "Done."
    assert engine.transcripts.misses == 2
    sent = [m for m in engine.model.requests[2].messages if m["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == ["think", "think"]
