"""Live Runs: what Steps say before they end, between the Events, from any place."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from perdure import Agent, RetryRule, ToolContext, tool
from perdure.client.live.run import LiveRun
from perdure.client.live.source import Source
from perdure.client.live.watches import Watches
from perdure.runs.deltas import (
    ArgumentsDelta,
    LiveEvent,
    OutputTextDelta,
    Position,
    ReasoningDelta,
    Reset,
    StepRetrying,
    ToolProgressed,
    position_of,
)
from perdure.runs.errors import ErrorCode
from perdure.runs.events import EndBase
from tests.harness.engine import Engine, soon
from tests.harness.pages import chunk
from tests.harness.scripted_openai import Gate, Reply, call, chunks, text, tool_calls

SOON = RetryRule(max_attempts=3, first_s=0.2, longest_s=0.2)
SPEAKER = Agent(name="speaker", retries={ErrorCode.STREAM_INCOMPLETE: SOON})


async def until(items: AsyncIterator[Any], wanted: type, **fields: Any) -> list[Any]:
    """Take items until one is as wanted."""
    taken: list[Any] = []
    async with asyncio.timeout(20):
        async for item in items:
            taken.append(item)
            is_it = isinstance(item, wanted)
            if is_it and all(getattr(item, name) == value for name, value in fields.items()):
                return taken
    raise AssertionError(f"the stream ended without a {wanted.__name__}: {taken}")


def said(items: Iterable[LiveEvent | None], kind: type = OutputTextDelta) -> str:
    """Put together what was said, and see that nothing is missing or told twice."""
    words, offset = "", None
    for item in items:
        if isinstance(item, OutputTextDelta | ReasoningDelta | ArgumentsDelta):
            assert offset is None or item.offset == offset
            offset = item.offset + len(item.delta)
            words += item.delta if isinstance(item, kind) else ""
    return words


async def test_words_come_between_the_events_for_early_and_late_readers(
    engine: Engine, source: Source
) -> None:
    first, second = Gate(), Gate()
    engine.model.script([text("Once ", "upon ", "a time").hold(first, 2).hold(second, 3)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        async with LiveRun(engine.client, run_id, source) as live:
            early = live.read(Position())
            begun = await until(early, OutputTextDelta)
            first.open()
            begun += await until(early, OutputTextDelta)
            assert said(begun) == "Once upon "
            late = await until(live.read(Position()), OutputTextDelta)
            assert said(late) == "Once upon "
            resumed = live.read(position_of(begun[-2]))
            again = await anext(resumed)
            assert again is not None
            assert said([again]) == said([begun[-1]])
            second.open()
            rest = [item async for item in early if item is not None]
        ended = rest[-1]
        assert isinstance(ended, EndBase)
        assert ended.run is not None
        assert ended.run.output == "Once upon a time"
        assert said(begun + rest).startswith("Once upon ")
        numbers = [e.sequence_number for e in begun + rest if hasattr(e, "sequence_number")]
        assert numbers == list(range(len(numbers)))
        assert await engine.ended(run_id) == ended.run


def thinking(*deltas: dict[str, Any]) -> Reply:
    return chunks(
        *[chunk(each) for each in deltas],
        chunk({}, finish_reason="tool_calls"),
        b"data: [DONE]\n\n",
    )


async def test_thoughts_and_arguments_are_in_one_log_with_the_words(
    engine: Engine, source: Source
) -> None:
    @tool(effect="read")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    def piece(arguments: str, name: str | None = None) -> dict[str, Any]:
        function = {"arguments": arguments} | ({"name": name} if name else {})
        return {"tool_calls": [{"index": 0, "id": "c1" if name else None, "function": function}]}

    gate = Gate()
    reply = thinking(
        {"role": "assistant"},
        {"reasoning_content": "Let me add. "},
        {"content": "I add. "},
        piece('{"a": 1,', "add"),
        piece(' "b": 2}'),
    ).hold(gate, 5)
    engine.model.script([reply, text("3")])
    async with engine.serving(Agent(name="adder", tools=[add])):
        run_id = await engine.start("adder")
        items = engine.manager.live_events(run_id)
        taken = await until(items, ArgumentsDelta)
        assert said(taken, ReasoningDelta) == "Let me add. "
        assert said(taken) == "I add. "
        assert said(taken, ArgumentsDelta) == '{"a": 1, "b": 2}'
        assert (taken[-1].name, taken[-1].call, taken[-1].call_id) == ("add", 0, "c1")
        gate.open()
        assert [item async for item in items]
        await engine.ended(run_id)


async def test_a_new_attempt_says_that_it_starts_over(engine: Engine, source: Source) -> None:
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
        retried = await until(items, StepRetrying)
        assert (retried[-1].attempt, retried[-1].step) == (2, 1)
        assert "stream" in retried[-1].reason
        anew = await until(items, OutputTextDelta)
        assert (anew[-1].attempt, anew[-1].offset) == (2, 0)
        whole.open()
        rest = [item async for item in items]
        assert rest[-1].run.output == "Right words"
        # Whoever comes with a place in the first attempt is told as well.
        await engine.ended(run_id)


async def test_a_tools_progress_is_told_and_only_the_latest(engine: Engine, source: Source) -> None:
    goes_on = asyncio.Event()

    @tool(effect="read")
    async def copy(context: ToolContext) -> str:
        """Copy."""
        context.progress("half", 0.5)
        await goes_on.wait()
        return "copied"

    engine.model.script([tool_calls(call("copy", {})), text("Done.")])
    async with engine.serving(Agent(name="copier", tools=[copy])):
        run_id = await engine.start("copier")
        items = engine.manager.live_events(run_id)
        told = (await until(items, ToolProgressed))[-1]
        assert (told.step, told.message, told.fraction) == (2, "half", 0.5)
        goes_on.set()
        rest = [item.type async for item in items]
        assert rest[-1] == "run.completed"
        await engine.ended(run_id)


async def test_one_watch_serves_all_readers_and_outlives_the_last_for_a_while(
    engine: Engine, source: Source
) -> None:
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    watches = Watches(engine.client, source, linger_s=0.01)
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        async with watches.watching(run_id) as one, watches.watching(run_id) as other:
            assert one is other
            readers = [one.read(Position()) for _ in range(50)]
            heard = await asyncio.gather(*[until(each, OutputTextDelta) for each in readers])
            assert {said(each) for each in heard} == {"Once "}

        async def is_stopped() -> bool:
            return one.is_over

        await soon(is_stopped)
        async with watches.watching(run_id) as again:
            assert again is not one
            reading = asyncio.create_task(anext_all(again.read(Position())))
            gate.open()
            events = await reading
            assert isinstance(events[-1], EndBase)
            assert [e for e in events if isinstance(e, EndBase)] == [events[-1]]
        # A watch of a Run that has ended is not kept: it may be resumed.
        async with watches.watching(run_id) as later:
            assert later is not again
        await watches.close()
        await engine.ended(run_id)


async def anext_all(items: AsyncIterator[LiveEvent | None]) -> list[LiveEvent | None]:
    return [item async for item in items]


async def test_a_watch_that_is_stopped_ends_its_readers_without_an_end_of_the_run(
    engine: Engine, source: Source
) -> None:
    gate = Gate()
    engine.model.script([text("Once ", "more").hold(gate, 2)])
    async with engine.serving(SPEAKER):
        run_id = await engine.start("speaker")
        watches = Watches(engine.client, source)
        async with watches.watching(run_id) as live:
            reading = asyncio.create_task(anext_all(live.read(Position())))
            await until(live.read(Position()), OutputTextDelta)
            await watches.close()
            items = await reading
        assert not [item for item in items if isinstance(item, EndBase)]
        gate.open()
        await engine.ended(run_id)


async def test_positions_that_are_unknown_get_the_whole_run_instead(
    engine: Engine, source: Source
) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(SPEAKER):
        run = await engine.run("speaker")
        for position in (None, Position(run.last_event + 1)):
            async with LiveRun(engine.client, run.run_id, source) as live:
                items = [item async for item in live.read(position)]
            assert items == [Reset(run_id=run.run_id, reason="unknown_position", run=run)]
