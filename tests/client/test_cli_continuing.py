"""The commands that go on from a Run: `steps`, `resume`, `fork`, `limits`."""

import json

import pytest

from perdure import Agent, Limits, Timeouts, tool
from perdure.client.cli.continuing import read_values
from perdure.runs.errors import InvalidRequest
from tests.harness.engine import Engine, soon
from tests.harness.processes import output
from tests.harness.scripted_openai import call, text, tool_calls


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


AGENT = Agent(name="assistant", tools=[double])


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


async def test_a_run_that_met_a_limit_is_shown_resumed_and_forked(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script([tool_calls(call("double", {"number": 21})), text("It is 42.")])
    engine.model.script([text("Or 43.")])
    async with engine.serving(AGENT):
        asked = ("start", "Double 21.", "--limits", "max_turns=1", "--wait")
        code, _, err = await output(*asked, env=env)
        assert code == 1
        assert "max_turns" in err
        run_id = err.split()[1]
        code, _, err = await output("resume", run_id, env=env)
        assert (code, "run_not_resumable" in err) == (2, True)
        raised = ("--with-limits", "max_turns=2", "--follow")
        code, out, _ = await output("resume", run_id, *raised, env=env)
        assert (code, out) == (0, "It is 42.\n")
        code, shown, hint = await output("steps", run_id, env=env)
        assert code == 0
        assert [line.split()[2] for line in shown.splitlines()[1:]] == ["model", "tool", "model"]
        assert f"perdure fork {run_id}" in hint
        code, lines, _ = await output("steps", run_id, "--json", env=env)
        assert [json.loads(line)["number"] for line in lines.splitlines()] == [1, 2, 3]
        other = ("--step", "2", "--message", "Sure?", "--with-limits", "max_turns=2", "--follow")
        code, out, _ = await output("fork", run_id, *other, env=env)
        assert (code, out) == (0, "Or 43.\n")
        await engine.ended(run_id)


async def test_a_paused_run_is_found_and_its_limit_raised(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script([tool_calls(call("double", {"number": 21})), text("It is 42.")])
    paused = ("--limits", "max_turns=1", "--on-limit", "pause")
    async with engine.serving(AGENT):
        code, out, _ = await output("start", "Double 21.", *paused, env=env)
        run_id = out.strip()

        async def waits() -> bool:
            return (await engine.manager.get_run(run_id)).waiting_on is not None

        await soon(waits)
        code, shown, _ = await output("get", run_id, env=env)
        assert f"perdure limits {run_id}" in shown
        code, _, err = await output("limits", run_id, "max_turns=1", env=env)
        assert (code, "not enough" in err) == (2, True)
        code, _, _ = await output("limits", run_id, "max_turns=2", env=env)
        assert code == 0
        assert (await engine.ended(run_id)).output == "It is 42."


def test_values_are_read_from_what_people_write() -> None:
    assert read_values(Limits, "max_turns=5, max_cost=0.5") == Limits(max_turns=5, max_cost=0.5)
    assert read_values(Timeouts, "run_s=9.5") == Timeouts(run_s=9.5)
    assert read_values(Limits, None) == read_values(Limits, "") == Limits()


@pytest.mark.parametrize(
    "text", ["turns=5", "max_turns", "max_turns=", "max_turns=0", "max_turns=x"]
)
def test_values_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_values(Limits, text)
