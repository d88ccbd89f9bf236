"""The commands that steer a Run: `send`, `pause`, `unpause`, and what `get` and `watch` show."""

import asyncio
import json

import pytest

from perdure import Agent
from tests.harness.engine import Engine, soon
from tests.harness.processes import perdure
from tests.harness.scripted_openai import Gate, text

AGENT = Agent(name="assistant")


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


async def output(
    *arguments: str, env: dict[str, str], standard_input: str = ""
) -> tuple[int, str, str]:
    """Run `perdure …` to its end with a standard input."""
    async with perdure(*arguments, env=env, stdin=asyncio.subprocess.PIPE) as process:
        async with asyncio.timeout(60):
            out, err = await process.communicate(standard_input.encode())
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


async def test_a_run_is_paused_told_something_and_let_go_on(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Hello.").hold(gate), text("Bye.")])
    async with engine.serving(AGENT):
        run_id = await engine.start("assistant")
        await gate.reached
        paused = ("pause", run_id, "--reason", "let me see")
        code, out, _ = await output(*paused, env=env)
        assert (code, out) == (0, f"Run {run_id} pauses when what is in flight has ended.\n")
        code, out, _ = await output("get", run_id, env=env)
        assert "Pausing: what is in flight ends first." in out
        gate.open()

        async def waits() -> bool:
            return (await engine.manager.get_run(run_id)).waiting_on is not None

        await soon(waits)
        code, out, _ = await output("pause", run_id, "--json", env=env)
        assert (code, json.loads(out)["pause_reason"]) == (0, "let me see")
        code, out, _ = await output("send", run_id, "One.", env=env)
        assert (code, out) == (0, f"Run {run_id} was told.\n")
        code, out, _ = await output(
            "send", run_id, "-", "--json", env=env, standard_input="Two, [bold]."
        )
        assert [each["text"] for each in json.loads(out)["follow_ups"]] == ["One.", "Two, [bold]."]
        code, out, _ = await output("get", run_id, env=env)
        for part in (f"perdure unpause {run_id}", "paused: let me see", "One.", "Two, [bold]."):
            assert part in out
        code, out, _ = await output("unpause", run_id, env=env)
        assert (code, out) == (0, f"Run {run_id} is not paused any more.\n")
        code, out, _ = await output("watch", run_id, "--json", env=env)
        assert code == 0
        told = [json.loads(line) for line in out.splitlines()]
        assert [e["text"] for e in told if e["type"] == "run.message.accepted"] == [
            "One.",
            "Two, [bold].",
        ]
        await engine.ended(run_id)
        code, out, err = await output("send", run_id, "Three.", "--json", env=env)
        assert (code, out) == (2, "")
        assert json.loads(err)["error"]["code"] == "run_already_terminal"
        code, out, err = await output("unpause", run_id, env=env)
        assert (code, "run_already_terminal" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("send", "nope", "Hi."), 5, "run_not_found"),
        (("send", "nope", "Hi.", "--json"), 5, "run_not_found"),
        (("pause", "nope"), 5, "run_not_found"),
        (("unpause", "nope"), 5, "run_not_found"),
        (("pause", "nope", "--reason", "x" * 5000), 2, "payload_too_large"),
    ],
)
async def test_what_can_not_be_done_is_said(
    engine: Engine, env: dict[str, str], arguments: tuple[str, ...], code: int, words: str
) -> None:
    left_with, out, err = await output(*arguments, env=env)
    assert (left_with, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
