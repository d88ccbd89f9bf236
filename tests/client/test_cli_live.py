"""`watch`, `--follow` and `--wait`: what Steps say before they end, for people and for programs."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perdure import Agent, RetryRule, ToolContext, tool
from perdure.runs.errors import ErrorCode
from tests.harness.engine import Engine
from tests.harness.pages import chunk
from tests.harness.processes import perdure
from tests.harness.scripted_openai import Gate, Reply, call, chunks, text, tool_calls
from tests.harness.terminal import on_terminal

SCHEMA = Path(__file__).parents[2] / "docs" / "events.schema.json"
LATER = RetryRule(max_attempts=3, first_s=2, longest_s=2)
SOON = RetryRule(max_attempts=3, first_s=0.2, longest_s=0.2)


class Work:
    """A tool that says how far it is, and goes on when it is let."""

    def __init__(self) -> None:
        self.goes_on = Gate(timeout_s=60)

    def agent(self, retry: RetryRule) -> Agent:
        """Return an agent that has it."""

        @tool(effect="read")
        async def add(context: ToolContext, a: int, b: int) -> int:
            """Add."""
            context.progress("half way", 0.5)
            await self.goes_on.pass_through()
            return a + b

        retries = {ErrorCode.STREAM_INCOMPLETE: retry}
        return Agent(name="assistant", tools=[add], retries=retries)


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


def thinking() -> Reply:
    """Think, say something, and call the tool, in pieces 2 to 5."""

    def piece(arguments: str, name: str | None = None) -> dict[str, Any]:
        function = {"arguments": arguments} | ({"name": name} if name else {})
        return {"tool_calls": [{"index": 0, "id": "c1" if name else None, "function": function}]}

    said = [
        {"role": "assistant"},
        {"reasoning_content": "Adding is easy."},
        {"content": "I add\x1b[31m. "},
        piece('{"a": 1,', "add"),
        piece(' "b": 2}'),
    ]
    end = chunk({}, finish_reason="tool_calls"), b"data: [DONE]\n\n"
    return chunks(*[chunk(each) for each in said], *end)


async def test_words_thoughts_arguments_and_retries_stream_on_a_terminal(
    engine: Engine, env: dict[str, str]
) -> None:
    thought, said, asked, wrong, right = (Gate(timeout_s=60) for _ in range(5))
    engine.model.script(
        [
            thinking().hold(thought, 2).hold(said, 3).hold(asked, 4),
            text("Wrong ", "words").hold(wrong, 2).without_done(3),
            text("It is\x07 ", "3.").hold(right, 2),
        ]
    )
    work = Work()
    async with engine.serving(work.agent(LATER)):
        run_id = await engine.start("assistant")
        async with on_terminal("watch", run_id, env=env) as watch:
            await watch.shows("thinking: Adding is easy.")
            thought.open()
            await watch.shows("I add[31m.")
            said.open()
            await watch.shows('→ add({"a": 1,')
            asked.open()
            await watch.shows("50% half way")
            work.goes_on.open()
            await watch.shows("Wrong")
            wrong.open()
            await watch.shows("attempt 2 in ")
            await watch.shows("after: The provider's stream ended")
            since = len(watch.shown)
            await watch.shows("It is")
            right.open()
            await watch.shows("completed (end_turn)")
            await watch.shows("3.")
            assert await watch.ended() == 0
        await engine.ended(run_id)
    assert "Wrong" not in watch.shown[since:]
    stays = watch.shown.split("completed (end_turn)")[-1]
    assert stays.count("It is 3.") == 2  # its Step, and the output
    for harmful in (b"\x1b[31m.", b"\x07"):
        assert harmful not in watch.raw


async def test_waiting_on_a_terminal_shows_the_words_and_leaves_only_the_output(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Once ", "more.").hold(gate, 2)])
    async with (
        engine.serving(Work().agent(SOON)),
        on_terminal("start", "Go.", "--wait", env=env) as start,
    ):
        await start.shows("Once")
        gate.open()
        await start.shows("Once more.\n")
        assert await start.ended() == 0
    assert start.shown.endswith("Once more.\n")


async def lines(process: asyncio.subprocess.Process) -> AsyncIterator[dict[str, Any]]:
    """Yield what a process prints, as JSON."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        async for line in process.stdout:
            yield json.loads(line)


async def test_json_has_the_deltas_between_the_right_events_and_fits_the_schema(
    engine: Engine, env: dict[str, str]
) -> None:
    said, wrong, right = (Gate(timeout_s=60) for _ in range(3))
    engine.model.script(
        [
            thinking().hold(said, 5),
            text("Wrong ", "words").hold(wrong, 2).without_done(3),
            text("It is ", "3.").hold(right, 2),
        ]
    )
    work, items = Work(), list[dict[str, Any]]()
    goes_on = {
        ("run.tool_call.arguments.delta", 1): said,
        ("run.tool.progress", 1): work.goes_on,
        ("run.output_text.delta", 1): wrong,
        ("run.output_text.delta", 2): right,
    }
    async with (
        engine.serving(work.agent(SOON)),
        perdure("start", "Go.", "--follow", "--json", env=env) as process,
    ):
        async for item in lines(process):
            items.append(item)
            if gate := goes_on.get((item["type"], item.get("attempt", 0))):
                gate.open()
        assert await process.wait() == 0
        run = await engine.ended(items[0]["run_id"])
    assert items[-1]["run"] == run.model_dump(mode="json")
    assert_in_order(items)
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for item in items:
        validator.validate(item)
    retried = [item for item in items if item["type"] == "run.step.retrying"]
    assert [(item["step"], item["attempt"]) for item in retried] == [(3, 2)]


def assert_in_order(items: list[dict[str, Any]]) -> None:
    """Nothing is missing or told twice, and a delta stands within its Step."""
    last, running, log = -1, set[int](), dict[int, tuple[int, int]]()
    for item in items:
        if "sequence_number" in item:
            last += 1
            assert item["sequence_number"] == last
            if item["type"] == "run.step.started":
                running.add(item["step"])
            elif item["type"] in ("run.step.completed", "run.step.failed"):
                running.remove(item["step"])
            continue
        assert item["after"] == last
        assert item["step"] in running
        attempt, offset = log.get(item["step"], (1, 0))
        if item["type"] == "run.step.retrying":
            assert item["attempt"] > attempt
            log[item["step"]] = item["attempt"], 0
        elif "offset" in item:
            assert (item["attempt"], item["offset"]) == (attempt, offset)
            log[item["step"]] = attempt, offset + len(item["delta"])
    assert last > 0
    assert log


async def test_a_chat_shows_thoughts_and_arguments_and_says_that_a_draft_is_void(
    engine: Engine, env: dict[str, str]
) -> None:
    said, wrong = Gate(timeout_s=60), Gate(timeout_s=60)
    engine.model.script(
        [
            thinking().hold(said, 4),
            text("It is ", "4?").hold(wrong, 2).without_done(3),
            text("It is 3."),
        ]
    )
    work = Work()
    work.goes_on.open()
    async with engine.serving(work.agent(SOON)), on_terminal("chat", env=env) as chat:
        await chat.shows("\n> ")
        chat.say("Add.")
        await chat.shows("I add[31m. \n")
        await chat.shows('→ add({"a": 1,')
        said.open()
        await chat.shows("✓ add(")
        await chat.shows("It is ")
        wrong.open()
        await chat.shows("What stands above is void: attempt 2")
        assert "It is" not in (await chat.shows("It is 3.\n")).removesuffix("It is 3.\n")
        assert "It is" not in await chat.shows(" tokens · ")
        chat.say("/quit")
        assert await chat.ended() == 0


async def test_a_pipe_stays_quiet_and_gets_the_output(engine: Engine, env: dict[str, str]) -> None:
    work = Work()
    engine.model.script([tool_calls(call("add", {"a": 1, "b": 2})), text("3.")])
    async with engine.serving(work.agent(SOON)):
        run_id = await engine.start("assistant")
        async with (
            perdure("watch", run_id, env=env) as quiet,
            perdure("watch", run_id, "--json", env=env) as told,
        ):
            async for item in lines(told):
                if item["type"] == "run.tool.progress":
                    work.goes_on.open()
            out, err = await quiet.communicate()
        await engine.ended(run_id)
    assert (quiet.returncode, out.decode(), err.decode()) == (0, "3.\n", "")
