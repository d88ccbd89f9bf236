"""The command line as people and scripts use it: real processes, exit codes, two outputs."""

import json
from pathlib import Path

import pytest

from perdure import Agent, tool
from tests.harness.engine import Engine
from tests.harness.processes import output
from tests.harness.scripted_openai import Gate, call, status, text, tool_calls


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(effect="read")
def recite(number: int) -> str:
    """Recite."""
    return "é" * number


AGENT = Agent(name="assistant", tools=[double, recite])


@pytest.fixture
def env(engine: Engine) -> dict[str, str]:
    return {"PERDURE_TASK_QUEUE": engine.task_queue}


def answered() -> list[object]:
    return [tool_calls(call("double", {"number": 21})), text("It is 42.")]


async def test_start_prints_only_the_id_and_get_shows_steps_and_totals(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script(answered())
    async with engine.serving(AGENT):
        code, out, err = await output("start", "Double 21.", env=env)
        assert (code, err) == (0, "")
        run = await engine.ended(out.strip())
        traces = {"PERDURE_TRACE_URL": "http://traces.example/{trace_id}"}
        code, shown, _ = await output("get", run.run_id, env=env | traces)
    assert code == 0
    assert f"Trace: http://traces.example/{run.trace_id}\n" in shown
    for part in (run.run_id, "completed", "double", "42", f"{run.total_tokens:,} tokens"):
        assert part in shown


async def test_start_wait_prints_only_the_output_into_a_pipe(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script(answered())
    async with engine.serving(AGENT):
        code, out, err = await output("start", "Double 21.", "--wait", env=env)
    assert (code, out, err) == (0, "It is 42.\n", "")


async def test_follow_with_json_prints_one_event_a_line(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script(answered())
    async with engine.serving(AGENT):
        code, out, _ = await output("start", "Double 21.", "--follow", "--json", env=env)
    items = [json.loads(line) for line in out.splitlines()]
    events = [item for item in items if "sequence_number" in item]  # deltas may stand between
    assert code == 0
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "run.completed"
    assert events[-1]["run"]["output"] == "It is 42."


async def test_a_failed_run_has_its_own_exit_code_and_says_why_without_the_key(
    engine: Engine, env: dict[str, str]
) -> None:
    key = engine.settings.openai_api_key
    assert key is not None
    body = {"error": {"message": f"Incorrect API key provided: {key.get_secret_value()}"}}
    engine.model.script([status(401, body=body)])
    async with engine.serving(AGENT):
        code, out, err = await output("start", "Go.", "--wait", env=env)
    assert (code, out) == (1, "")
    assert "OPENAI_API_KEY" in err
    assert "[redacted]" in err
    assert key.get_secret_value() not in err


async def test_an_unknown_agent_is_named_with_those_there_are(
    engine: Engine, env: dict[str, str]
) -> None:
    async with engine.serving(AGENT):
        code, _, err = await output("start", "Go.", "--agent", "nobody", "--wait", env=env)
    assert code == 1
    assert "nobody" in err
    assert "assistant" in err


async def test_cancel_stops_a_run_and_watch_leaves_with_its_exit_code(
    engine: Engine, env: dict[str, str]
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([text("Half ", "of it").hold(gate, before_chunk=2)])
    async with engine.serving(AGENT):
        run_id = await engine.start("assistant")
        await gate.reached
        code, out, _ = await output("cancel", run_id, "--reason", "enough", env=env)
        assert (code, out) == (0, f"Run {run_id} was told to stop.\n")
        code, _, _ = await output("watch", run_id, env=env)
        assert code == 3
        code, out, _ = await output("cancel", run_id, env=env)
        assert (code, out) == (0, f"Run {run_id} has already ended: cancelled.\n")
        await engine.ended(run_id)


@pytest.mark.parametrize(
    ("arguments", "env_of", "code", "words"),
    [
        (("get", "nope"), {}, 5, "run_not_found"),
        (("watch", "nope"), {}, 5, "run_not_found"),
        (("cancel", "nope"), {}, 5, "run_not_found"),
        (("ui", "nope"), {}, 5, "run_not_found"),
        (("start", " "), {}, 2, "empty"),
        (("start", "Go."), {"PERDURE_TASK_QUEUE": "nobody-polls-this"}, 6, "no_worker"),
        (("list", "--cursor", "!"), {}, 2, "cursor"),
        (("list", "--agent", "a' b"), {}, 2, "agent"),
        (("list",), {"TEMPORAL_ADDRESS": "127.0.0.1:9"}, 6, "engine_unavailable"),
        (("start", "Go."), {"TEMPORAL_ADDRESS": "127.0.0.1:9"}, 6, "perdure dev"),
    ],
)
async def test_errors_are_one_sentence_with_a_code_and_never_a_traceback(
    client: object, arguments: tuple[str, ...], env_of: dict[str, str], code: int, words: str
) -> None:
    left_with, out, err = await output(*arguments, env=env_of)
    assert (left_with, out) == (code, "")
    assert words in err
    assert err.startswith("Error (")
    assert "Traceback" not in err


async def test_a_worker_that_can_not_start_logs_one_line_with_the_code(client: object) -> None:
    code, out, err = await output("worker", env={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""})
    assert (code, out) == (6, "")
    line = json.loads(err)
    assert (line["level"], line["code"]) == ("error", "configuration")
    assert "OPENAI_API_KEY" in line["event"]


async def test_errors_are_json_when_json_is_asked_for(client: object) -> None:
    code, out, err = await output("get", "nope", "--json")
    assert (code, out) == (5, "")
    assert json.loads(err)["error"]["code"] == "run_not_found"


async def test_list_and_ui_know_the_run(engine: Engine, env: dict[str, str]) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("assistant")
        code, out, _ = await output("get", run.run_id, "--json", env=env)
        assert (code, json.loads(out)["run_id"]) == (0, run.run_id)
        code, out, _ = await output("list", "--agent", "assistant", "--json", env=env)
        assert code == 0
        assert json.loads(out)["runs"]
        code, out, _ = await output("ui", run.run_id, env=env)
    assert code == 0
    assert out.strip().endswith(f"/namespaces/default/workflows/{run.run_id}")


async def test_result_prints_the_whole_of_a_result_and_nothing_else(
    engine: Engine, env: dict[str, str]
) -> None:
    engine.model.script([tool_calls(call("recite", {"number": 50_000}, id="a")), text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("assistant")
        for named in ("a", "2"):
            code, out, err = await output("result", run.run_id, named, env=env)
            assert (code, out, err) == (0, "é" * 50_000, "")
    code, out, err = await output("result", run.run_id, "b", env=env)
    assert (code, out) == (5, "")
    assert "call_not_found" in err


async def test_a_storage_that_can_not_be_used_is_said_with_the_way_out(
    engine: Engine, env: dict[str, str], tmp_path: Path
) -> None:
    engine.model.script([tool_calls(call("recite", {"number": 50_000}, id="a")), text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("assistant")
    lost = env | {"PERDURE_STORAGE_DIR": str(tmp_path)}
    code, out, err = await output("result", run.run_id, "a", env=lost)
    assert (code, out) == (6, "")
    assert "storage_unavailable" in err
    assert "PERDURE_STORAGE_DIR" in err
