"""Sessions on the command line: `perdure sessions …`, queues, conversations through a pipe."""

import asyncio
import json
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from perdure import Agent, tool
from perdure.client.cli.app import app
from tests.harness.engine import Engine, soon
from tests.harness.processes import perdure
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls
from tests.harness.terminal import on_terminal


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


AGENT = Agent(name="assistant", tools=[double])


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


@pytest.fixture
def session_id() -> str:
    return f"s-{uuid4().hex[:8]}"


async def invoked(*arguments: str, env: dict[str, str]) -> tuple[int, str, str]:
    """Execute a command in this process: each test here takes many, and a process a second."""
    done = await asyncio.to_thread(CliRunner(env=env).invoke, app, arguments)
    return done.exit_code, done.stdout, done.stderr


async def piped(lines: str, *arguments: str, env: dict[str, str]) -> tuple[int, str, str]:
    async with perdure(*arguments, env=env, stdin=asyncio.subprocess.PIPE) as process:
        out, err = await process.communicate(lines.encode())
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


async def noticed(engine: Engine, session_id: str, runs: int) -> None:
    """Wait until the Session has noticed that all its Runs have ended."""

    async def is_idle() -> bool:
        report = await engine.manager.session(session_id).get()
        return report.runs == runs and report.active_run_id is None

    await soon(is_idle)


async def test_a_session_is_listed_shown_read_configured_cleared_forked_and_deleted(
    engine: Engine, env: dict[str, str], session_id: str
) -> None:
    engine.model.script([tool_calls(call("double", {"number": 21})), text("It is 42.")])
    async with engine.serving(AGENT):
        run = await engine.run("assistant", "Double 21.", session_id=session_id)
        await noticed(engine, session_id, runs=1)

        async def listed() -> bool:
            code, shown, _ = await invoked("sessions", "list", env=env)
            assert code == 0
            line = next((each for each in shown.splitlines() if session_id in each), "")
            return "idle" in line and f"{run.total_tokens:,}" in line

        await soon(listed)
        code, shown, _ = await invoked("sessions", "runs", session_id, env=env)
        assert (code, run.run_id in shown) == (0, True)
        code, shown, err = await invoked("sessions", "messages", session_id, env=env)
        assert (code, err) == (0, "")
        assert shown.splitlines() == [
            "> Double 21.",
            '  → double({"number": 21})',
            "  ← 42",
            "It is 42.",
        ]
        code, shown, _ = await invoked("sessions", "messages", session_id, "--json", env=env)
        roles = [json.loads(line)["role"] for line in shown.splitlines()]
        assert roles == ["user", "assistant", "tool", "assistant"]

        changed = ("max_tokens=5000", "--variables", '{"user": "Ada"}')
        code, _, _ = await invoked("sessions", "configure", session_id, *changed, env=env)
        assert code == 0
        code, shown, _ = await invoked("sessions", "get", session_id, "--variables", env=env)
        assert code == 0
        for part in (session_id, f"{run.total_tokens:,} of 5,000", "Expires", "Ada"):
            assert part in shown
        code, forked, _ = await invoked("sessions", "fork", session_id, env=env)
        assert code == 0

        async def is_fork() -> bool:
            shown = (await invoked("sessions", "get", forked.strip(), "--json", env=env))[1]
            return bool(json.loads(shown)["forked_from"] == session_id)

        await soon(is_fork)
        assert (await invoked("sessions", "clear", session_id, env=env))[0] == 0
        assert (await invoked("sessions", "messages", session_id, env=env))[:2] == (0, "")

        code, _, err = await invoked("sessions", "delete", session_id, env=env)
        assert (code, "--yes" in err) == (2, True)
        async with on_terminal("sessions", "delete", session_id, env=env) as terminal:
            await terminal.shows("[y/N]")
            terminal.say("n")
            await terminal.shows("Nothing was deleted.")
        code, shown, err = await invoked("sessions", "delete", session_id, "--yes", env=env)
        assert (code, shown) == (0, f"Deleted Session {session_id} and 1 Run.\n")
        assert "external storage stay" in err
        code, shown, _ = await invoked("sessions", "get", session_id, env=env)
        assert code == 5 or "Ended" in shown  # Temporal takes half a minute to delete it


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("get", "nope"), 5, "session_not_found"),
        (("runs", "nope"), 5, "session_not_found"),
        (("messages", "nope"), 5, "session_not_found"),
        (("clear", "nope"), 5, "session_not_found"),
        (("delete", "nope", "--yes"), 5, "session_not_found"),
        (("get", "a b"), 2, "can't name a session"),
        (("list", "--cursor", "!"), 2, "cursor"),
        (("configure", "nope"), 2, "Nothing to change"),
        (("configure", "nope", "--variables", "[]"), 2, "JSON object"),
        (("configure", "nope", "max_turns=1"), 2, "max_turns"),
    ],
)
async def test_errors_are_one_sentence_with_a_code(
    engine: Engine, env: dict[str, str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    left_with, out, err = await invoked("sessions", *arguments, env=env)
    assert (left_with, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


async def test_a_busy_session_refuses_or_queues_and_shows_the_place(
    engine: Engine, env: dict[str, str], session_id: str
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("First.").hold(gate), text("Second."), text("Third.")])
    started = ("start", "Go.", "--session", session_id)
    async with engine.serving(AGENT):
        first = await engine.start("assistant", session_id=session_id)
        await gate.reached
        code, out, err = await invoked(*started, env=env)
        assert (code, out) == (7, "")
        assert first in err
        queued = ("--on-busy", "enqueue", "--idempotency-key", "key-1")
        code, second, _ = await invoked(*started, *queued, env=env)
        assert code == 0
        assert (await invoked(*started, *queued, env=env))[1] == second, "said once"
        code, _, err = await invoked(*started, "--model", "m", *queued, env=env)
        assert (code, "idempotency_conflict" in err) == (2, True)
        third = (await invoked(*started, "--on-busy", "enqueue", env=env))[1].strip()
        async with on_terminal("watch", third, env=env) as watching:
            await watching.shows("Waiting for its turn, place 2.")
            code, shown, _ = await invoked("get", third, env=env)
            assert (code, "Waiting for its turn, place 2." in shown) == (0, True)

            async def listed() -> bool:
                shown = (await invoked("list", "--session", session_id, env=env))[1]
                line = next((each for each in shown.splitlines() if third in each), "")
                return "pending (place 2)" in line

            await soon(listed)
            code, shown, _ = await invoked("sessions", "get", session_id, env=env)
            assert f"Active Run   {first}" in shown
            assert f"Place 2      {third}" in shown
            gate.open()
            await watching.shows("Third.")
            assert await watching.ended() == 0


async def test_through_a_pipe_each_line_is_a_message_and_only_answers_come_out(
    engine: Engine, env: dict[str, str], session_id: str
) -> None:
    engine.model.script([text("One."), text("Two."), status(401), text("Four.")])
    nobody = {"PERDURE_TASK_QUEUE": "nobody-polls-this"}
    async with engine.serving(AGENT):
        said, (code, out, err) = await asyncio.gather(
            piped("first\n\nsecond\n", "chat", session_id, env=env),
            piped("first\n", "chat", env=nobody),
        )
        assert said == (0, "One.\nTwo.\n", "")
        assert (code, out, "no_worker" in err) == (6, "", True)
        code, out, err = await piped("third\n", "chat", session_id, env=env)
        assert (code, out) == (1, "")
        assert "OPENAI_API_KEY" in err
        code, out, _ = await piped("fourth\n", "chat", session_id, "--json", env=env)
        run = json.loads(out)
        assert (code, run["output"], run["session_id"]) == (0, "Four.", session_id)
    said_before = [m["content"] for m in engine.model.requests[1].messages if m["role"] != "system"]
    assert said_before == ["first", "One.", "second"]
