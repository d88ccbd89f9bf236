"""Runs with MCP servers, on a real Temporal server: what the model is offered, and gets back."""

import json
from pathlib import Path

import pytest

from perdure import Agent, RetryRule, Secret, StdioServer, tool
from perdure.runs.errors import ErrorCode
from perdure.runs.limits import MAX_RESULT_BYTES
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls
from tests.mcp.asking import codes, offered, told, using
from tests.mcp.launching import PROGRAM, heard, scripted

TOKEN = "token-0123456789"  # noqa: S105 - made up


@tool
def create_issue(text: str) -> str:
    """Create an issue, in Python."""
    return f"python: {text}"


async def test_tools_of_two_servers_and_python_with_one_name_are_all_called(
    engine: Engine,
) -> None:
    """Case MCP-08."""
    agent = Agent(
        name="a",
        tools=[create_issue],
        mcp_servers=[
            scripted("gh", include=["create_issue"]),
            scripted("lin", include=["create_issue"]),
        ],
    )
    run = await using(
        engine,
        agent,
        call("create_issue", {"text": "1"}, id="python"),
        call("gh__create_issue", {"text": "2"}, id="gh"),
        call("lin__create_issue", {"text": "3"}, id="lin"),
    )
    assert run.status is RunStatus.COMPLETED
    assert offered(engine) == ["create_issue", "gh__create_issue", "lin__create_issue"]
    assert told(engine) == {
        "python": "python: 1",
        "gh": "create_issue: 2",
        "lin": "create_issue: 3",
    }
    names = {
        each["function"]["name"]: each["function"]
        for each in engine.model.requests[0].body["tools"]
    }
    assert names["gh__create_issue"]["parameters"]["required"] == ["text"]
    assert names["gh__create_issue"]["description"] == "Do create_issue."


async def test_whatever_a_tool_answers_the_model_is_told_after_one_attempt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Cases MCP-06 and MCP-10."""
    monkeypatch.setenv("ISSUE_TOKEN", TOKEN)
    log = tmp_path / "log"
    server = scripted("s", log=log, env={"TOKEN": Secret("ISSUE_TOKEN")})
    big = 2512292042121000001
    run = await using(
        engine,
        Agent(name="a", mcp_servers=[server]),
        call("s__refuse", {}, id="refuse"),
        call("s__rpc_error", {}, id="rpc"),
        call("s__nonsense", {}, id="nonsense"),
        call("s__structured", {}, id="structured"),
        call("s__media", {}, id="media"),
        call("s__arguments", {"n": big, "f": 1.5, "self": [{}]}, id="exact"),
        call("s__add", {"a": "one", "c": 2}, id="misfit"),
        call("s__absent", {}, id="absent"),
        call("s__environment", {}, id="environment"),
        call("s__big", {"size": 10_000_000}, id="big"),
        call("s__spät", {}, id="hostile"),
    )
    said = told(engine)
    assert run.status is RunStatus.COMPLETED
    assert codes(run) == {
        "refuse": ("tool_failed", 1),
        "rpc": ("tool_failed", 1),
        "nonsense": ("tool_failed", 1),
        "structured": (None, 1),
        "media": (None, 1),
        "exact": (None, 1),
        "misfit": ("tool_arguments_invalid", 0),
        "absent": ("tool_not_found", 0),
        "environment": (None, 1),
        "big": (None, 1),
        "hostile": ("tool_not_found", 0),
    }
    assert "404 [redacted]" in said["refuse"]
    assert "-32000: Connection closed by the moon" in said["rpc"]
    assert json.loads(said["structured"]) == {"n": big, "x": 1.5}
    assert "image image/png, 3,000 bytes" in said["media"]
    assert json.loads(said["exact"]) == {"n": big, "f": 1.5, "self": [{}]}
    assert "Arguments do not fit the schema: " in said["misfit"]
    assert "a: 'one' is not of type 'integer'" in said["misfit"]
    assert len(said["big"]) < MAX_RESULT_BYTES + 500
    assert len((await engine.manager.result(run.run_id, "big")).encode()) == 10_000_000
    assert [m["params"]["name"] for m in heard(log, "tools/call")].count("refuse") == 1
    everything = "".join(await engine.histories(run.run_id)) + json.dumps(said)
    assert TOKEN not in everything
    assert "OPENAI" not in said["environment"]


async def test_a_server_that_dies_in_a_call_harms_only_the_calls_that_it_had(
    engine: Engine,
) -> None:
    """Case MCP-01."""
    one, other = scripted("one", trusted=True), scripted("other")
    agent = Agent(name="a", mcp_servers=[one, other])
    engine.model.script(
        [
            tool_calls(call("one__die", {}, id="unsafe")),
            tool_calls(
                call("one__die_reading", {}, id="read"),
                call("other__echo", {"text": "fine"}, id="other"),
            ),
            tool_calls(call("one__echo", {"text": "back"}, id="again")),
            text("Done."),
        ]
    )
    async with engine.serving(agent):
        run = await engine.run("a")
    assert codes(run) == {
        "unsafe": ("outcome_unknown", 1),
        "read": ("mcp_connection_lost", 3),
        "other": (None, 1),
        "again": (None, 1),
    }
    assert run.status is RunStatus.COMPLETED
    assert told(engine)["again"] == "echo: back"


async def test_a_server_that_can_t_be_started_ends_the_run_unless_it_is_optional(
    engine: Engine,
) -> None:
    """Case MCP-04."""
    missing = StdioServer("gone", "true")
    hasty = StdioServer("gone", "no-such-program", optional=True)
    needs = Agent(
        name="needs",
        mcp_servers=[scripted("s"), missing],
        fallback_models=["another"],
        retries={ErrorCode.MCP_UNAVAILABLE: RetryRule(max_attempts=1)},
    )
    async with engine.serving(needs):
        failed = await engine.run("needs")
    assert failed.error is not None
    assert failed.error.code is ErrorCode.MCP_UNAVAILABLE
    assert "'gone'" in failed.error.message
    assert (engine.model.requests, len(failed.steps)) == ([], 1)
    likes = Agent(name="likes", tools=[create_issue], mcp_servers=[hasty, scripted("s")])
    run = await using(engine, likes, call("s__echo", {"text": "on"}, id="e"))
    assert run.status is RunStatus.COMPLETED
    assert told(engine) == {"e": "echo: on"}
    assert {name.partition("__")[0] for name in offered(engine)} == {"create_issue", "s"}


async def test_a_server_that_starts_at_the_second_attempt_is_used(
    engine: Engine, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    tried = f"test -e {flag} && exec python {PROGRAM}; touch {flag}; exit 1"
    agent = Agent(name="a", mcp_servers=[StdioServer("s", "sh", ["-c", tried])])
    run = await using(engine, agent, call("s__echo", {"text": "up"}, id="e"))
    assert (run.steps[0].attempt, told(engine)) == (2, {"e": "echo: up"})


async def test_a_cancelled_run_and_a_time_limit_reach_the_server(
    engine: Engine, tmp_path: Path
) -> None:
    """Case MCP-05."""
    log = tmp_path / "log"
    agent = Agent(
        name="a", mcp_servers=[scripted("s", log=log, timeout_s=1.0, effects={"sleep": "unsafe"})]
    )

    async def is_running() -> bool:
        return len(heard(log, "tools/call")) == 1

    def asked() -> list[object]:
        return [message["id"] for message in heard(log, "tools/call")]

    def cancelled() -> list[object]:
        return [m["params"]["requestId"] for m in heard(log, "notifications/cancelled")]

    async def is_cancelled() -> bool:
        return cancelled() == asked()

    sleeping = tool_calls(call("s__sleep", {"s": 60}, id="sleep"))
    engine.model.script([sleeping, sleeping])
    async with engine.serving(agent):
        run_id = await engine.start("a", timeouts={"tool_s": 60.0})
        await soon(is_running)
        await engine.manager.cancel(run_id)
        run = await engine.ended(run_id)
        await soon(is_cancelled)
        assert run.status is RunStatus.CANCELLED
        assert codes(run) == {"sleep": ("outcome_unknown", 1)}
        engine.model.script(
            [tool_calls(call("s__echo", {"text": "still here"}, id="e")), text("Done.")]
        )
        limited = await engine.run("a")
        await soon(lambda: _is(cancelled() == asked()[:2]))
    assert codes(limited) == {"sleep": ("outcome_unknown", 1), "e": (None, 1)}
    assert told(engine)["e"] == "echo: still here"
    assert len(heard(log, "initialize")) == 1


async def _is(value: bool) -> bool:
    return value
