"""One session of a worker for many Runs, and what is left of it when the worker stops."""

from pathlib import Path

import pytest

from perdure import Agent, HttpServer, Secret
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import call, text, tool_calls
from tests.mcp.asking import offered, told, using
from tests.mcp.http_server import SdkServer, served
from tests.mcp.launching import exists, heard, scripted

TOKEN = "token-0123456789"  # noqa: S105 - made up


async def test_a_stopped_worker_leaves_no_server_behind(engine: Engine) -> None:
    agent = Agent(name="a", mcp_servers=[scripted("s")])
    run = await using(engine, agent, call("s__leave_child", {}, id="pids"))
    assert run.status is RunStatus.COMPLETED
    server, child = map(int, told(engine)["pids"].split())

    async def are_gone() -> bool:
        return not any(exists(pid) for pid in (server, child))

    assert not exists(server)
    await soon(are_gone)


async def test_ten_runs_share_one_session_and_the_next_turn_sees_changed_tools(
    engine: Engine, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    agent = Agent(name="a", mcp_servers=[scripted("s", "--old", log=log)])
    engine.model.respond_with(
        lambda request: (
            text("Done.")
            if request.messages[-1]["role"] == "tool"
            else tool_calls(call("s__echo", {"text": request.messages[-1]["content"]}))
        )
    )
    async with engine.serving(agent):
        started = [await engine.start("a", f"Run {number}.") for number in range(10)]
        runs = [await engine.ended(run_id) for run_id in started]
        assert [run.tool_calls[0].result for run in runs] == [
            f"echo: Run {number}." for number in range(10)
        ]
        engine.model.script([tool_calls(call("s__change", {}, id="c")), text("Done.")])
        await engine.run("a", "Change.")
    assert len(heard(log, "initialize")) == 1
    before, after = offered(engine, -2), offered(engine, -1)
    assert {"s__gone", "s__grown"} <= set(before)
    assert "s__gone" not in after


async def test_a_server_over_http_is_used_and_told_of_a_cancel(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_TOKEN", TOKEN)
    sdk = SdkServer()
    async with served(sdk.app()) as url:
        server = HttpServer("h", url, headers={"Authorization": Secret("HTTP_TOKEN", "Bearer {}")})
        agent = Agent(name="a", mcp_servers=[server])
        engine.model.script(
            [
                tool_calls(call("h__double", {"number": 21}, id="d")),
                tool_calls(call("h__wait", {}, id="w")),
            ]
        )
        async with engine.serving(agent):
            run_id = await engine.start("a")
            await sdk.started.wait()
            await engine.manager.cancel(run_id)
            run = await engine.ended(run_id)
            await sdk.cancelled.wait()
    assert run.tool_calls[0].result == "42"
    assert run.status is RunStatus.CANCELLED
    assert TOKEN not in "".join(await engine.histories(run_id))
