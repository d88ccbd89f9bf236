"""Approvals and questions on the command line: shown in full, decided once; Runs below Runs."""

import asyncio
import getpass
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perdure import Agent, RunFilter, ask_user, tool
from perdure.client.cli.app import app
from tests.harness.engine import Engine, soon
from tests.harness.processes import perdure
from tests.harness.scripted_openai import call, text, tool_calls
from tests.harness.terminal import on_terminal
from tests.workflows.test_approvals import asks

PAID: list[int] = []
EVIL = "\x1b[2J\u202e[bold]" + "x" * 900 + "the end"


@tool(approval=lambda asked: f"More than {asked.arguments['euros'] - 1} euros.")
def pay(euros: int, to: str = "") -> str:
    """Pay somebody."""
    PAID.append(euros)
    return f"paid {euros}"


CLERK = Agent(name="clerk", tools=[pay, ask_user])
BOSS = Agent(name="boss", tools=[CLERK.as_tool()], handoffs=["clerk"])


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    PAID.clear()


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


class Shell:
    """Executes commands in this process: each test takes many, and a process a second."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env

    async def __call__(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        runner = CliRunner(env=self._env)
        done = await asyncio.to_thread(runner.invoke, app, arguments, input=given)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, done.stdout, done.stderr

    async def well(self, *arguments: str, given: str = "") -> str:
        """Return what a command prints that does what it is to do."""
        code, out, err = await self(*arguments, given=given)
        assert code == 0, err
        return out

    async def refused(self, *arguments: str, given: str = "") -> str:
        """Return what a command says that can't be done."""
        code, out, err = await self(*arguments, given=given)
        assert (code, out) in ((2, ""), (5, "")), out + err
        assert "Traceback" not in err
        return err


@pytest.fixture
def sh(env: dict[str, str]) -> Shell:
    return Shell(env)


async def test_what_waits_is_listed_shown_and_decided(
    engine: Engine, sh: Shell, tmp_path: Path
) -> None:
    asked = [("A", 1), ("B", 2), ("C", 3), ("D", 4)]
    calls = [call("pay", {"euros": n, "to": EVIL}, id=name) for name, n in asked]
    engine.model.script([tool_calls(*calls), text("Done.")])
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id, 4)

        async def listed() -> bool:
            return run_id in await sh.well("approvals", "--agent", "clerk")

        await soon(listed)
        shown = await sh.well("approvals", "--agent", "clerk")
        assert shown.count(run_id) == 4
        assert "More than 0 euros." in shown
        assert "more characters]" in shown
        found = json.loads(await sh.well("approvals", "--agent", "clerk", "--json"))
        ours = [each for each in found["actions"] if each["run_id"] == run_id]
        assert [json.loads(each["action"]["arguments"])["to"] for each in ours] == [EVIL] * 4
        shown += await sh.well("approvals", run_id)
        assert "the end" in shown
        assert f"perdure approve {run_id} action_2" in shown
        shown += await sh.well("get", run_id)
        assert not set(shown) & {"\x1b", "\u202e"}
        assert "\\u202e[bold]xxx" in shown
        assert "Waiting for a person to decide: action_1" in shown

        assert "asks 4 things: action_1 (pay)" in await sh.refused("approve", run_id)
        assert "no action 'Z'" in await sh.refused("approve", run_id, "Z")
        for bad in ("no JSON", "[1]", "@/no/such/file", '{"a": NaN}'):
            err = await sh.refused("approve", run_id, "A", "--edit-args", bad, "--json")
            assert json.loads(err)["error"]["code"] == "invalid_request"
        assert "is an approval" in await sh.refused("answer", run_id, "A", "yes")

        said = await sh.well("approve", run_id, "action_1", "--by", "ann", "--note", "[red]go")
        assert said == f"Action action_1 of Run {run_id}: approved by ann, “[red]go”.\n"
        said = await sh.well("approve", run_id, "B", "--edit-args", "-", given='{"euros": 20}')
        me = getpass.getuser()
        assert said == f'Action action_2 of Run {run_id}: approved by {me}, with {{"euros": 20}}.\n'
        edited = tmp_path / "arguments.json"
        edited.write_text('{"euros": 30}')
        again = ("approve", run_id, "C", "--edit-args", f"@{edited}", "--json")
        assert json.loads(await sh.well(*again))["run_id"] == run_id
        assert "was approved by" in await sh.refused("reject", run_id, "C")
        await sh.well("reject", run_id, "--note", "too much")
        run = await engine.ended(run_id)
        assert "waits for nobody" in await sh.refused("approve", run_id)
        assert "waits for nobody" in await sh.well("approvals", run_id)
        shown = await sh.well("get", run_id)
    assert sorted(PAID) == [1, 20, 30]
    assert "too much" in (run.tool_calls[3].result or "")
    for part in ("action_1: approved by ann, “[red]go”", "action_4: rejected", "“too much”"):
        assert part in shown


async def test_a_question_is_answered_by_words_or_by_number(engine: Engine, sh: Shell) -> None:
    asked = {"question": "Which [one]?", "choices": ["red", "blue"]}
    engine.model.script(
        [
            tool_calls(call("ask_user", asked, id="q")),
            tool_calls(call("ask_user", {"question": "Why?"}, id="w")),
            text("Done."),
        ]
    )
    async with engine.serving(CLERK):
        run_id = await engine.start("clerk")
        await asks(engine, run_id)
        shown = await sh.well("get", run_id)
        for part in ("Which [one]?", "1.", "red", f'perdure answer {run_id} action_1 "…"'):
            assert part in shown
        assert "none of the choices" in await sh.refused("answer", run_id, "green")
        assert "in quotes" in (await sh("answer", run_id, "a", "b", "c"))[2]
        said = await sh.well("answer", run_id, "q", "2", "--by", "ann")
        assert said == f"Action action_1 of Run {run_id}: answered by ann: blue.\n"

        async def asks_again() -> bool:
            waiting = (await engine.manager.get_run(run_id)).waiting_on
            return waiting is not None and waiting.action_ids == ("action_2",)

        await soon(asks_again)
        said = await sh.well("answer", run_id, "-", "--json", given="Because\nof that.\n")
        run = await engine.ended(run_id)
    assert json.loads(said)["tool_calls"][1]["result"] == "Because\nof that."
    assert [each.result for each in run.tool_calls] == ["blue", "Because\nof that."]


async def test_a_run_below_another_is_found_shown_and_decided(
    engine: Engine, sh: Shell, env: dict[str, str]
) -> None:
    engine.model.script(
        [
            tool_calls(call("clerk", {"input": "Pay."}, id="c")),
            tool_calls(call("pay", {"euros": 5}, id="p")),
            text("Paid."),
            text("All done."),
        ]
    )
    session = f"s-{engine.task_queue}"
    async with (
        engine.serving(CLERK, BOSS),
        perdure(
            "start", "Go.", *("--agent", "boss", "--session", session, "--wait"), env=env
        ) as process,
    ):
        assert process.stderr is not None
        told = ""
        async with asyncio.timeout(60):
            while "perdure approve" not in told:
                told = (await process.stderr.readline()).decode()
        child_id, action_id = told.split()[-2:]
        run_id = child_id.removesuffix(".2")

        async def listed() -> bool:
            return child_id in await sh.well("approvals", "--session-id", session)

        await soon(listed)
        for command in (("approvals", run_id), ("get", run_id)):
            shown = await sh.well(*command)
            assert f"perdure approve {child_id} {action_id}" in shown
        assert "(waits for you: action_1)" in shown
        tree = await sh.well("get", run_id, "--tree")
        assert f"└ {child_id}" in tree
        assert "running (child)" in tree
        await engine.manager.approve(child_id, action_id, by="ann")
        out, _ = await process.communicate()
        assert (process.returncode, out.decode()) == (0, "All done.\n")
        run, child = await engine.ended(run_id), await engine.ended(child_id)
        found = json.loads(await sh.well("get", run_id, "--tree", "--json"))
        (below,) = found["children"]
        assert (found["run_id"], found["total_tokens"]) == (run_id, run.total_tokens)
        assert (below["run_id"], below["status"], below["step"]) == (child_id, "completed", 2)
        assert below["total_tokens"] == child.total_tokens > 0
        tokens = f"{child.total_tokens:,} tokens"
        assert f"Run {child_id}" in await sh.well("get", run_id)
        assert tokens in await sh.well("get", run_id, "--tree")

        async def ended() -> bool:
            found = await engine.manager.list_runs(RunFilter(agent="clerk"))
            return child_id in [each.run_id for each in found.runs if each.status.is_terminal]

        await soon(ended)
        assert child_id not in await sh.well("list", "--limit", "100")
        assert run_id in await sh.well("list", "--limit", "100")
        for option in (["--called", "--limit", "100"], ["--agent", "clerk"]):
            lines = (await sh.well("list", *option)).splitlines()
            assert "CALLED BY" in lines[0]
            assert next(line.split()[-1] for line in lines if child_id in line) == run_id
    assert PAID == [5]


async def test_a_live_view_shows_who_waits_and_a_handoff(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script(
        [
            tool_calls(call("handoff_to_clerk", {}, id="h")),
            tool_calls(call("pay", {"euros": 7, "to": EVIL}, id="p")),
            text("Paid."),
        ]
    )
    async with engine.serving(CLERK, BOSS):
        run_id = await engine.start("boss")
        await asks(engine, run_id)
        async with on_terminal("watch", run_id, env=env) as watch:
            await watch.shows("goes on as the agent clerk")
            await watch.shows("characters]")  # the line may break before
            await watch.shows(f"perdure approve {run_id} action_1")
            named = ("approve", run_id, "--by", "ann", "--note", "ok")
            async with on_terminal(*named, env=env) as approve:
                await approve.shows("the end")
                await approve.shows("Approve this? [y/N] ")
                approve.say("")
                await approve.shows("Nothing was approved.")
                assert await approve.ended() == 2
            async with on_terminal(*named, env=env) as approve:
                await approve.shows("Approve this? [y/N] ")
                assert PAID == []
                approve.say("y")
                assert await approve.ended() == 0
            await watch.shows("action_1: approved by ann, “ok”")
            assert await watch.ended() == 0
        assert "the end" not in watch.shown
        await engine.ended(run_id)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("approve", "nope"), 5, "run_not_found"),
        (("reject", "nope", "a", "--json"), 5, "run_not_found"),
        (("answer", "nope", "a"), 5, "run_not_found"),
        (("approvals", "nope"), 5, "run_not_found"),
        (("approvals", "--agent", "a b"), 2, "agent: "),
        (("approvals", "--cursor", "?"), 2, "not a cursor"),
        (("get", "nope", "--tree"), 5, "run_not_found"),
        (("approve", "nope", "a", "--edit-args", "{"), 2, "can't be read"),
    ],
)
async def test_what_can_not_be_done_is_said(
    engine: Engine, sh: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    left_with, out, err = await sh(*arguments)
    assert (left_with, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


def test_whoever_has_no_name_is_asked_for_one(monkeypatch: Any, env: dict[str, str]) -> None:
    monkeypatch.setattr("getpass.getuser", _nobody)
    done = CliRunner(env=env).invoke(app, ["approve", "r", "a"])
    assert done.exit_code == 2
    assert "--by NAME" in done.stderr


def _nobody() -> str:
    raise KeyError("uid not found: 4711")
