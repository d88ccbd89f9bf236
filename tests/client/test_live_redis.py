"""Deltas through Redis: sooner than heartbeats, and no Run needs them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.enums.v1 import EventType

from perdure import Agent, ToolContext, tool
from perdure.agents.checks import CheckedOutput
from perdure.client.live.redis import RedisStreams
from perdure.client.live.run import LiveRun
from perdure.client.live.source import Heartbeats, Source
from perdure.runs.deltas import LiveEvent, OutputTextDelta, Position, StepRetrying, ToolProgressed
from perdure.runs.events import EndBase
from perdure.runs.told import stream_of
from tests.client.test_live import SPEAKER, said, until
from tests.harness.engine import Engine, soon
from tests.harness.redis import RedisServer
from tests.harness.scripted_openai import Gate, call, text, tool_calls


class Deaf(Heartbeats):
    """Hears no heartbeat: what comes all the same has come through Redis."""

    async def look(self, live: LiveRun) -> bool:
        return False


class AskedOnly(Heartbeats):
    """Looks at heartbeats when it is told to, and never by itself."""

    async def listen(self, live: LiveRun) -> None:
        while not live.is_over:
            await live.happens()


def deaf(engine: Engine, redis: RedisServer) -> Source:
    """Let worker and watcher have Redis, and the watcher nothing else."""
    engine.settings.redis_url = redis.url
    engine.manager.source = RedisStreams(engine.client, redis.open, Deaf(engine.client))
    return engine.manager.source


async def event_types(engine: Engine, run_id: str) -> list[str]:
    [history] = await engine.executions(run_id)
    return [EventType.Name(event.event_type) for event in history.events]


async def test_words_come_through_redis_for_late_readers_too_and_cost_no_history(
    engine: Engine, redis: RedisServer
) -> None:
    async with engine.serving(SPEAKER):
        engine.model.script([text("Once ", "upon ", "a time")])
        plain = await engine.run("speaker")
    source = deaf(engine, redis)
    first, second = Gate(), Gate()
    engine.model.script([text("Once ", "upon ", "a time").hold(first, 2).hold(second, 3)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        async with LiveRun(engine.client, run_id, source) as live:
            items = live.read(Position())
            begun = await until(items, OutputTextDelta)
            first.open()
            begun += await until(items, OutputTextDelta)
            assert said(begun) == "Once upon "
            late = [each async for each in _first(engine.manager.live_events(run_id))]
            assert said(late) == "Once upon "
            key = stream_of(engine.client.namespace, run_id, 1)
            assert await redis.ask("KEYS", "*") == [key]
            assert 0 < await redis.ask("TTL", key) <= 3600
            second.open()
            ended = [item async for item in items][-1]
        assert isinstance(ended, EndBase)
        await engine.ended(run_id)

        async def goes_soon() -> bool:
            return bool(await redis.ask("TTL", key) <= 60)

        await soon(goes_soon)
    assert await event_types(engine, run_id) == await event_types(engine, plain.run_id)


async def _first(items: Any) -> AsyncIterator[LiveEvent]:
    """Yield items up to the first words."""
    async with contextlib.aclosing(items):
        async for item in items:
            yield item
            if isinstance(item, OutputTextDelta):
                return


async def test_runs_and_steps_side_by_side_are_not_mixed(
    engine: Engine, redis: RedisServer
) -> None:
    source = deaf(engine, redis)
    goes_on, ends = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def copy(name: str, context: ToolContext) -> str:
        """Copy."""
        context.progress("begun")
        await goes_on.wait()
        context.progress(f"half of {name}", 0.5)
        await ends.wait()
        return "copied"

    calls = [call("copy", {"name": name}, f"c{name}") for name in "ab"]
    engine.model.script([tool_calls(*calls)])
    engine.model.script([tool_calls(*calls)])
    engine.model.respond_with(lambda _: text("Done."))
    agent = Agent(name="copier", tools=[copy])
    async with engine.serving(agent):
        run_ids = [await engine.start("copier") for _ in "12"]
        async with contextlib.AsyncExitStack() as stack:
            lives = [
                await stack.enter_async_context(LiveRun(engine.client, run_id, source))
                for run_id in run_ids
            ]
            readers = [live.read(Position()) for live in lives]
            for items in readers:
                assert [each.message for each in await _progress(items)] == ["begun", "begun"]
            goes_on.set()
            for run_id, items in zip(run_ids, readers, strict=True):
                told = await _progress(items)
                run = await engine.manager.get_run(run_id)
                named = {each.step: json.loads(each.arguments)["name"] for each in run.tool_calls}
                assert {each.run_id for each in told} == {run_id}
                assert {each.step: each.message for each in told} == {
                    step: f"half of {name}" for step, name in named.items()
                }
            ends.set()
            for run_id in run_ids:
                await engine.ended(run_id)
    for key in await redis.ask("KEYS", "*"):
        assert await redis.ask("XLEN", key) == 1, "of progress, the latest is kept"


async def _progress(items: AsyncIterator[Any]) -> list[ToolProgressed]:
    """Return what the two tools of a Run say next."""
    return [(await until(items, ToolProgressed))[-1] for _ in "ab"]


async def test_a_new_attempt_begins_its_stream_anew(engine: Engine, redis: RedisServer) -> None:
    deaf(engine, redis)
    broken, whole = Gate(), Gate()
    engine.model.script(
        [
            text("Wrong ", "words").hold(broken, 2).without_done(3),
            text("Right ", "words").hold(whole, 2),
        ]
    )
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        items = engine.manager.live_events(run_id)
        assert said(await until(items, OutputTextDelta)) == "Wrong "
        broken.open()
        anew = await until(items, OutputTextDelta, attempt=2)
        assert said(anew[-1:]) == "Right "
        assert [each.attempt for each in anew if isinstance(each, StepRetrying)] == [2]
        key = stream_of(engine.client.namespace, run_id, 1)
        assert await redis.ask("XLEN", key) == 1
        whole.open()
        assert [item async for item in items][-1].type == "run.completed"
        await engine.ended(run_id)


async def test_a_reader_has_the_words_that_redis_has_no_more(
    engine: Engine, redis: RedisServer
) -> None:
    engine.settings.redis_url = redis.url
    gates = [Gate(), Gate(), Gate()]
    reply = text("One ", "two ", "three ", "four")
    for number, gate in enumerate(gates):
        reply = reply.hold(gate, number + 2)
    engine.model.script([reply])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        key = stream_of(engine.client.namespace, run_id, 1)
        early = engine.manager.live_events(run_id)
        assert said(await until(early, OutputTextDelta)) == "One "
        gates[0].open()

        async def has_two() -> bool:
            return bool(await redis.ask("XLEN", key) == 2)

        await soon(has_two)
        await redis.ask("XTRIM", key, "MAXLEN", 1)
        source = RedisStreams(engine.client, redis.open, AskedOnly(engine.client))
        async with LiveRun(engine.client, run_id, source) as live:
            items = live.read(Position())
            heard = ""
            while heard != "One two ":
                heard += said((await until(items, OutputTextDelta))[-1:])
            gates[1].open()
            assert said((await until(items, OutputTextDelta))[-1:]) == "three "
        gates[2].open()
        await engine.ended(run_id)
        await early.aclose()  # type: ignore[attr-defined]


async def test_what_no_check_has_seen_is_not_in_redis(engine: Engine, redis: RedisServer) -> None:
    deaf(engine, redis)
    closed, other = Gate(), Gate()

    def fine(output: CheckedOutput) -> None:
        """Let everything pass."""

    checked = Agent(name="checked", output_checks=[fine])
    engine.model.script([text("Secret ", "plan").hold(closed, 2)])
    async with engine.serving(checked, SPEAKER):
        run_id = await engine.start("checked")
        await closed.reached
        engine.model.script([text("Open ", "words").hold(other, 2)])
        # What another Run says has come, so the one before it would have come as well.
        later = await engine.start("speaker")
        await until(engine.manager.live_events(later), OutputTextDelta)
        keys = await redis.ask("KEYS", "*")
        assert keys == [stream_of(engine.client.namespace, later, 1)]
        closed.open()
        other.open()
        await engine.ended(run_id)
        await engine.ended(later)
