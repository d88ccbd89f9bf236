"""A Redis that is killed, hangs, or takes no password: no Run notices."""

import asyncio
import logging

import pytest
from pydantic import SecretStr

import perdure.engine.redis
from perdure.client.live.redis import RedisStreams
from perdure.client.live.run import LiveRun
from perdure.client.live.source import Heartbeats, source_of
from perdure.runs.deltas import OutputTextDelta, Position
from perdure.runs.events import EndBase
from perdure.runs.told import stream_of
from tests.client.test_live import SPEAKER, said, until
from tests.harness.engine import Engine, soon
from tests.harness.redis import RedisServer
from tests.harness.scripted_openai import Gate, text


async def test_a_redis_that_is_killed_harms_no_run_and_is_used_again(
    engine: Engine, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perdure")
    engine.settings.redis_url = redis.url
    looks = Heartbeats(engine.client, idle_s=3600)  # for as long as Redis works
    engine.manager.source = RedisStreams(engine.client, redis.open, looks)
    gates = [Gate(), Gate(), Gate()]
    reply = text("One ", "two ", "three ", "four")
    for number, gate in enumerate(gates):
        reply = reply.hold(gate, number + 2)
    engine.model.script([reply])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        items = engine.manager.live_events(run_id)
        taken = await until(items, OutputTextDelta)
        await redis.kill()
        gates[0].open()
        taken += await until(items, OutputTextDelta)
        assert said(taken) == "One two "
        await redis.start()
        gates[1].open()
        key = stream_of(engine.client.namespace, run_id, 1)

        async def has_all() -> bool:
            entries = await redis.ask("XRANGE", key, "-", "+")
            return "One two three " in str(entries)

        await soon(has_all)
        gates[2].open()
        taken += [item async for item in items]
        assert said(taken).startswith("One two three ")
        assert taken[-1].run.output == "One two three four"
        await engine.ended(run_id)
    told = [each.getMessage() for each in caplog.records if "Redis" in each.getMessage()]
    assert sum("takes no deltas" in each for each in told) == 1
    assert sum("tells no deltas" in each for each in told) == 1
    assert sum("takes deltas again" in each for each in told) == 1


async def test_nothing_waits_for_a_redis_that_hangs(
    engine: Engine, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever waited for an answer would wait for longer than the test may take.
    monkeypatch.setattr(perdure.engine.redis, "ANSWER_S", 3600)
    engine.settings.redis_url = redis.url
    source = RedisStreams(engine.client, redis.open)
    first, second = Gate(), Gate()
    engine.model.script([text("Once ", "upon ", "a time").hold(first, 2).hold(second, 3)])
    async with asyncio.timeout(60):
        async with engine.serving(SPEAKER):
            run_id = await engine.start("speaker")
            async with LiveRun(engine.client, run_id, source) as live:
                items = live.read(Position())
                taken = await until(items, OutputTextDelta)
                redis.hang()
                first.open()
                taken += await until(items, OutputTextDelta)
                assert said(taken) == "Once upon "
                second.open()
                taken += [item async for item in items]
                assert isinstance(taken[-1], EndBase)
            await engine.ended(run_id)


async def test_the_password_is_shown_nowhere(
    engine: Engine, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = SecretStr(redis.url.get_secret_value().replace("pass-", "wrong-pass-"))
    engine.settings.redis_url = wrong
    assert "pass-9f3c" not in repr(engine.settings) + engine.settings.model_dump_json()
    engine.manager.source = source_of(engine.client, engine.settings)
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        await until(engine.manager.live_events(run_id), OutputTextDelta)

        async def is_told() -> bool:
            return "takes no deltas (AuthenticationError)" in caplog.text

        await soon(is_told)
        gate.open()
        await engine.ended(run_id)
        [history] = await engine.histories(run_id)
    for shown in (caplog.text, history):
        assert "pass-9f3c" not in shown
