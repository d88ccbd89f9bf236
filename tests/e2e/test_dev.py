"""`perdure dev`, as a new user runs it: everything in one process group, safe to kill."""

import asyncio
import re
import signal
import socket
from pathlib import Path

import httpx2
import pytest

from perdure.engine.connect import Address
from tests.conftest import free_port
from tests.harness.processes import ended, kill, output, perdure, said
from tests.harness.scripted_openai import Gate, ScriptedOpenAI, call, text, tool_calls


def environment(folder: Path, port: int, model: ScriptedOpenAI) -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": f"127.0.0.1:{port}",
        "PERDURE_DATA_DIR": str(folder),
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": "test-key-1234",
        "PERDURE_HTTP_PORT": "0",
    }


async def stop(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode


async def test_a_killed_dev_started_again_goes_on_with_its_runs(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    port = free_port()
    env = environment(tmp_path, port, model)
    gate = Gate(timeout_s=60)
    model.script(
        [
            tool_calls(call("calculate", {"expression": "6 * 7"})),
            text("It ", "is 42.").hold(gate, before_chunk=2),
            text("It is 42."),
        ]
    )
    async with perdure("dev", env=env) as first:
        await said(first, "Ready.")
        code, run_id, _ = await output("start", "What is 6 * 7?", env=env)
        assert code == 0
        await gate.reached
        await kill(first)
    async with perdure("dev", env=env) as second:
        await said(second, "Ready.")
        code, answer, _ = await output("watch", run_id.strip(), env=env)
        assert (code, answer) == (0, "It is 42.\n")
        assert await stop(second) == 0
    assert len(model.requests) == 3
    assert not await Address("127.0.0.1", port).is_open(), "the server was left running"


async def test_dev_lets_steps_end_when_stopped_and_does_not_wait_when_told_twice(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    port = free_port()
    env = environment(tmp_path, port, model) | {"PERDURE_GRACE_S": "600"}
    first_gate, second_gate = Gate(timeout_s=60), Gate(timeout_s=60)
    model.script([text("First.").hold(first_gate), text("Never.").hold(second_gate)])
    async with perdure("dev", env=env) as dev:
        await said(dev, "Ready.")
        _, first, _ = await output("start", "One?", env=env)
        await first_gate.reached
        dev.send_signal(signal.SIGINT)
        await said(dev, "running Steps get 600 s")
        first_gate.open()
        assert await ended(dev) == 0
    async with perdure("dev", env=env) as dev:
        await said(dev, "Ready.")
        assert (await output("watch", first.strip(), env=env))[1] == "First.\n"
        await output("start", "Two?", env=env)
        await second_gate.reached
        dev.send_signal(signal.SIGINT)
        await said(dev, "running Steps get 600 s")
        dev.send_signal(signal.SIGINT)
        assert await ended(dev) == 0
    assert len(model.requests) == 2, "the first answer was kept"
    assert not await Address("127.0.0.1", port).is_open(), "the server was left running"


async def test_dev_refuses_a_port_that_something_else_has(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        code, _, error = await output("dev", env=environment(tmp_path, port, model))
    assert code == 6
    assert "is taken by something that is not a Temporal server" in error
    assert "Traceback" not in error


async def test_dev_serves_http_and_says_where(model: ScriptedOpenAI, tmp_path: Path) -> None:
    env = environment(tmp_path, free_port(), model)
    model.script([text("It is 42.")])
    async with perdure("dev", env=env) as dev:
        heard = await said(dev, "Ready.")
        (url,) = re.findall(r"HTTP: (http://127\.0\.0\.1:\d+)", heard)
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            assert (await http.get("/readyz")).status_code == 200
            start = {"agent": "assistant", "input": "6 * 7?", "wait": True}
            assert (await http.post("/v1/runs", json=start)).json()["output"] == "It is 42."
        assert await stop(dev) == 0
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/healthz")


async def test_dev_refuses_an_http_port_that_is_taken_and_says_what_to_do(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = {"PERDURE_HTTP_PORT": str(stranger.getsockname()[1])}
        env = environment(tmp_path, free_port(), model) | taken
        code, _, error = await output("dev", env=env)
    assert code == 6
    assert f"can't listen on 127.0.0.1:{taken['PERDURE_HTTP_PORT']}" in error
    assert "PERDURE_HTTP_PORT" in error
    assert "Traceback" not in error


async def test_dev_names_what_is_wrong_with_agents_that_can_not_be_loaded(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    env = environment(tmp_path, free_port(), model)
    code, _, error = await output("dev", "--agents", "no.such.module", env=env)
    assert code == 6
    assert "no.such.module" in error
    assert "Traceback" not in error


async def test_a_demo_shows_steps_answer_tokens_and_link_and_leaves_nothing_running(
    model: ScriptedOpenAI, tmp_path: Path
) -> None:
    port = free_port()
    model.script(
        [
            tool_calls(call("calculate", {"expression": "37 * 43 + 12"})),
            text("37 * 43 + 12 = 1603."),
        ]
    )
    code, out, error = await output("demo", env=environment(tmp_path, port, model))
    assert code == 0
    assert "calculate" in out
    assert "37 * 43 + 12 = 1603." in out
    assert "tokens" in out
    assert f"http://127.0.0.1:{port + 1000}/namespaces/default/workflows/run_" in error
    assert not await Address("127.0.0.1", port).is_open()
