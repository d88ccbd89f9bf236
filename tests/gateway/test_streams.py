"""Following Runs over HTTP: from anywhere, without gaps, and at no cost to the Run."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from perdure import Agent, tool
from perdure.gateway.streaming import sse
from perdure.runs.status import RunStatus
from tests.gateway.conftest import Gateway
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    call,
    text,
    tool_calls,
)

SPEAKER = Agent(name="speaker")
Frame = dict[str, str]
ENDS = ("run.completed", "run.failed", "run.cancelled", "run.timeout")


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """Yield the frames of a stream; a comment is a frame without data."""
    frame: Frame = {}
    async for line in response.aiter_lines():
        if not line:
            yield frame
            frame = {}
        else:
            name, _, value = line.partition(":")
            frame[name or "comment"] = value.removeprefix(" ")


@asynccontextmanager
async def following(
    http: httpx2.AsyncClient, run_id: str, **headers: str
) -> AsyncIterator[AsyncIterator[Frame]]:
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    accepting = {"Accept": "text/event-stream"} | headers
    async with http.stream("GET", f"/v1/runs/{run_id}/events", headers=accepting) as response:
        assert response.status_code == 200, await response.aread()
        yield frames(response)


async def told(stream: AsyncIterator[Frame], until: str = "") -> list[dict[str, Any]]:
    """Return what a stream tells, up to an item of a type, or its end."""
    items: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        async for frame in stream:
            if "data" in frame:
                items.append(json.loads(frame["data"]) | {"id": frame["id"]})
                assert items[-1]["type"] == frame["event"]
                if frame["event"] == until:
                    return items
    assert not until, f"no {until} in {[item['type'] for item in items]}"
    return items


async def test_a_stream_begins_at_once_and_ends_with_the_run(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        accept = {"Accept": "text/event-stream"}
        async with http.stream("GET", f"/v1/runs/{run_id}/events", headers=accept) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert "no-cache" in response.headers["cache-control"]
            assert response.headers["x-accel-buffering"] == "no"
            stream = frames(response)
            begun = await told(stream, "run.output_text.delta")
            assert [item["id"] for item in begun] == ["0", "1", "2", "2:1.1.5"]
            gate.open()
            rest = await told(stream)
        assert rest[-1]["type"] == "run.completed"
        run = await engine.ended(run_id)
        assert rest[-1]["run"] == json.loads(run.model_dump_json())
        ended = await http.get(
            f"/v1/runs/{run_id}/events", headers=accept | {"Last-Event-ID": rest[-1]["id"]}
        )
        assert (ended.status_code, ended.content) == (204, b"")


async def test_a_follower_goes_on_in_the_middle_of_a_word(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        await gate.reached
        async with following(http, run_id, Last_Event_ID="2:1.1.2") as stream:
            (item,) = await told(stream, "run.output_text.delta")
            assert (item["delta"], item["offset"]) == ("ce ", 2)
        query = f"/v1/runs/{run_id}/events?starting_after=1&format=sse"
        async with http.stream("GET", query) as response:
            items = await told(frames(response), "run.output_text.delta")
            assert [item["id"] for item in items] == ["2", "2:1.1.5"]
        gate.open()
        await engine.ended(run_id)


@pytest.mark.parametrize("position", ["4711", "nonsense", "3:x"])
async def test_an_unknown_position_gets_the_whole_run(
    engine: Engine, http: httpx2.AsyncClient, position: str
) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(SPEAKER):
        run = await engine.run("speaker")
        async with following(http, run.run_id, Last_Event_ID=position) as stream:
            (item,) = await told(stream)
    assert (item["type"], item["reason"]) == ("run.reset", "unknown_position")
    assert item["run"] == json.loads(run.model_dump_json())
    assert item["id"] == str(run.last_event)


async def test_silence_is_broken_by_comments_that_have_no_id(
    engine: Engine, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GATE-06."""
    assert sse.ALIVE_S <= 15
    monkeypatch.setattr("perdure.gateway.streaming.following.ALIVE_S", 0.05)
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        async with following(http, run_id) as stream:
            await told(stream, "run.output_text.delta")
            gate_opens = asyncio.get_running_loop().call_later(0.5, gate.open)
            async for frame in stream:
                assert gate_opens.when()
                # Comments belong to no frame; they come before the next one.
                assert frame.get("comment") == "", frame
                assert "id" in frame
                break
            await told(stream, "run.completed")
        await engine.ended(run_id)


async def test_followers_of_a_fast_run_miss_nothing_whenever_they_come(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    """GATE-01."""

    @tool(effect="read")
    def note(number: int) -> str:
        """Note a number."""
        return f"noted {number}"

    def reply(request: RecordedRequest) -> Reply:
        done = sum(message["role"] == "assistant" for message in request.messages)
        if done == 12:
            return text("Done.")
        return tool_calls(*[call("note", {"number": n}) for n in range(4)])

    engine.model.respond_with(reply)
    chance = random.Random(7)  # noqa: S311 - no secret

    async def follower(run_id: str, start: int) -> None:
        async def has_come_so_far() -> bool:
            return (await engine.manager.get_run(run_id)).last_event >= start

        await soon(has_come_so_far)
        async with following(http, run_id, Last_Event_ID=str(start - 1)) as stream:
            items = [i for i in await told(stream) if "sequence_number" in i]
        numbers = [item["sequence_number"] for item in items]
        assert numbers == list(range(start, numbers[-1] + 1))
        assert items[-1]["type"] == "run.completed"

    async with engine.serving(Agent(name="noter", tools=[note])):
        run_id = await engine.start("noter")
        starts = [chance.randrange(60) for _ in range(20)]
        await asyncio.gather(*[follower(run_id, start) for start in starts])
        await engine.ended(run_id)


@pytest.mark.parametrize("on_disconnect", ["continue", "cancel"])
async def test_a_disconnect_cancels_only_what_was_started_so(
    engine: Engine, http: httpx2.AsyncClient, on_disconnect: str
) -> None:
    """GATE-05."""
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        body = {"agent": "speaker", "input": "Go.", "stream": True, "on_disconnect": on_disconnect}
        accept = {"Accept": "text/event-stream"}
        async with http.stream("POST", "/v1/runs", json=body, headers=accept) as response:
            assert response.status_code == 200
            run_id = response.headers["location"].rpartition("/")[2]
            stream = frames(response)  # held: without it, the response is closed
            await told(stream, "run.output_text.delta")
            async with following(http, run_id) as other:  # one more viewer, who goes
                await told(other, "run.output_text.delta")
            run = await engine.manager.get_run(run_id)
            assert run.cancel is None
        if on_disconnect == "cancel":
            run = await engine.ended(run_id)
            assert run.status is RunStatus.CANCELLED
            assert run.steps[0].text == "Once "
        gate.open()
        if on_disconnect == "continue":
            assert (await engine.ended(run_id)).status is RunStatus.COMPLETED


async def test_a_gateway_that_stops_cancels_nothing(
    engine: Engine, http: httpx2.AsyncClient, gateway: Gateway
) -> None:
    """GATE-03: a stream that ends without a terminal Event is never the end."""
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        body = {"agent": "speaker", "input": "Go.", "stream": True, "on_disconnect": "cancel"}
        accept = {"Accept": "text/event-stream"}
        async with http.stream("POST", "/v1/runs", json=body, headers=accept) as response:
            run_id = response.headers["location"].rpartition("/")[2]
            stream = frames(response)
            await told(stream, "run.output_text.delta")
            await gateway.stop()
            assert not [item for item in await told(stream) if item["type"] in ENDS]
        gate.open()
        assert (await engine.ended(run_id)).status is RunStatus.COMPLETED
