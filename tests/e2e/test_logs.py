"""What real processes log: every line is JSON, names its Run, and tells no content."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine
from tests.harness.processes import Process, perdure, said
from tests.harness.scripted_openai import call, status, text, tool_calls
from tests.harness.terminal import on_terminal

AGENTS = str(Path(__file__).with_name("log_agents.py"))
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
PROMPT, ORDER, ANSWER = "canary of the prompt", "canary of the order", "canary of the answer"
REFUSAL, KEY, BANK = "canary of the refusal", "canary/key+0123456789", "canary/bank=0123456789"
CANARIES = (PROMPT, ORDER, ANSWER, REFUSAL)
SECRETS = (KEY, BANK)

Line = dict[str, Any]


def environment(engine: Engine, **more: str) -> dict[str, str]:
    return {
        "PERDURE_TASK_QUEUE": engine.task_queue,
        "OPENAI_BASE_URL": engine.model.base_url,
        "OPENAI_API_KEY": KEY,
        "PERDURE_SECRET_BANK": BANK,
        "PERDURE_LOG_LEVEL": "debug",
    } | more


def forms(canary: str) -> Iterator[str]:
    """In how many ways a canary may be written."""
    yield canary
    yield quote(canary, safe="")
    yield json.dumps(canary)[1:-1]
    for skipped in range(3):  # base64 depends on what stands before
        encoded = base64.b64encode(b"x" * skipped + canary.encode()).decode()
        yield encoded[4 if skipped else 0 :].rstrip("=")[:-2]


def found(log: str, canaries: tuple[str, ...]) -> list[str]:
    return [each for each in canaries if any(form in log for form in forms(each))]


def lines(log: str) -> list[Line]:
    """Read a log; every line of it is an object."""
    read = [json.loads(line) for line in log.splitlines()]
    for line in read:
        assert list(line)[:4] == ["timestamp", "level", "logger", "event"]
    return read


def by(read: list[Line], event: str) -> Line:
    """Return the one line that says something."""
    (line,) = (line for line in read if line["event"] == event)
    return line


async def stopped(process: Process) -> str:
    """Stop a process; return what else it has said."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        _, rest = await process.communicate()
    assert process.returncode == 0
    return rest.decode()


async def worked(engine: Engine, **more: str) -> tuple[str, Run, Run]:
    """Let a worker execute a Run that goes well and one that does not; return its log and both."""
    args = {"order": ORDER}
    engine.model.script(
        [
            tool_calls(*[call(name, args) for name in ("look_up", "charge", "refuse")]),
            text(ANSWER),
            status(500, {"error": {"message": REFUSAL}}),
            status(401, {"error": {"message": f"{REFUSAL}: wrong key {KEY}"}}),
        ]
    )
    env = environment(engine, **more)
    async with perdure("worker", "--agents", AGENTS, env=env) as process:
        log = await said(process, "Worker ready")
        session = engine.manager.session(f"s-{engine.task_queue}")
        well = await engine.ended((await session.start_run("shop", PROMPT)).run_id)
        badly = await engine.run("shop", PROMPT)
        log += await stopped(process)
    return log, well, badly


async def test_every_line_of_a_worker_names_what_it_is_about_and_tells_no_content(
    engine: Engine,
) -> None:
    log, well, badly = await worked(engine)
    assert (well.status, badly.status) == (RunStatus.COMPLETED, RunStatus.FAILED)
    read = lines(log)
    assert found(log, CANARIES) == []
    assert found(log, SECRETS) == []

    steps = {step.name: step.number for step in well.steps if step.kind == "tool"}
    ids = {"run_id": well.run_id, "session_id": well.session_id, "agent": "shop", "attempt": 1}
    execution = read_execution(read, well.run_id)
    for event, tool in (
        ("Looking up\nan order\x1b[2J", "look_up"),
        ("said by the SDK's logger", "look_up"),
        ("Charging with [redacted]", "charge"),
        ("charged", "charge"),
        ("%d is no number ('this',)", "charge"),
        ("The tool raised an error.", "refuse"),
    ):
        told = ids | {"step": steps[tool], "activity": f"tool.{tool}", "execution": execution}
        assert by(read, event).items() >= told.items(), event
    assert by(read, "Looking up\nan order\x1b[2J")["shelf"] == 7
    structured = by(read, "charged")
    assert (structured["logger"], structured["token"]) == ("shop.structured", "[redacted]")

    raised = by(read, "The tool raised an error.")["error"]
    assert (raised["type"], raised["cause"]["type"]) == ("RuntimeError", "ValueError")
    assert raised["cause"]["frames"][-1].endswith(" in _fails")
    assert by(read, "A thread ended by an error.")["error"]["type"] == "ValueError"
    (warned,) = (line for line in read if line["event"].startswith("Python warns: UserWarning"))
    assert warned.items() >= {"run_id": well.run_id, "step": steps["charge"]}.items()

    again = by(read, "The attempt failed; there will be another.")
    assert again.items() >= {"run_id": badly.run_id, "step": 1, "attempt": 1}.items()
    assert (again["code"], again["level"]) == ("llm_unavailable", "warning")
    assert again["retry_in_s"] > 0
    last = by(read, "The attempt failed, the last one.")
    assert last.items() >= {"run_id": badly.run_id, "attempt": 2, "code": "llm_auth"}.items()
    ends = [line for line in read if line["event"] == "The Run has ended."]
    assert [(each["run_id"], each["level"], each["status"]) for each in ends] == [
        (well.run_id, "info", "completed"),
        (badly.run_id, "warning", "failed"),
    ]
    assert ends[0].items() >= {"session_id": well.session_id, "tokens": well.total_tokens}.items()
    assert ends[1]["code"] == "llm_auth"
    assert not [each for each in read if each["logger"].startswith(("httpx", "httpcore", "openai"))]


def read_execution(read: list[Line], run_id: str) -> str:
    """Return the execution that all lines about a Run name."""
    (execution,) = {line["execution"] for line in read if line.get("run_id") == run_id}
    assert isinstance(execution, str)
    return execution


async def test_content_is_told_where_it_is_asked_for_and_secrets_never(engine: Engine) -> None:
    log, _, _ = await worked(engine, **{CONTENT: "true"})
    read = lines(log)
    assert by(read, "The tool raised an error.")["error"]["message"] == f"can't do {ORDER}"
    assert REFUSAL in by(read, "The attempt failed, the last one.")["content"]
    assert found(log, SECRETS) == []


async def test_a_person_at_a_terminal_reads_text_and_of_a_run_that_goes_well_one_line(
    engine: Engine,
) -> None:
    calls = [call(name, {"order": "1"}) for name in ("look_up", "refuse")]
    engine.model.script([tool_calls(*calls), text("Ok.")])
    env = environment(engine, PERDURE_LOG_LEVEL="info")
    async with on_terminal("worker", "--agents", AGENTS, env=env) as terminal:
        await terminal.shows("Worker ready: task queue")
        run = await engine.run("shop")
        await terminal.shows("The Run has ended.")
        terminal.type("\x03")
        await terminal.shows("Stopping; running Steps get 10 s.")
        assert await terminal.ended() == 0
    shown = terminal.shown
    assert shown.count("Worker ready") == 1
    assert '{"' not in shown
    ours = [line for line in shown.splitlines() if run.run_id in line and "shop." not in line]
    assert [line.partition("] ")[2].partition(" [")[0] for line in ours] == [
        "The tool raised an error.",
        "The Run has ended.",
    ]
    assert r"Looking up\nan order\x1b[2J" in shown
    assert f"run_id={run.run_id}" in shown
    assert "  from ValueError" in shown
    assert " in _fails" in shown


async def test_settings_that_are_wrong_are_a_line_as_well(engine: Engine) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "perdure.worker"),
        env=os.environ | environment(engine, PERDURE_RATE_LIMITS="{"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, log = await process.communicate()
    (line,) = lines(log.decode())
    assert process.returncode == 6
    assert (line["level"], line["code"]) == ("error", "configuration")
    assert "PERDURE_RATE_LIMITS: it is not JSON" in line["event"]


async def test_a_gateway_logs_each_request_with_its_run_and_without_what_was_said(
    engine: Engine,
) -> None:
    env = environment(engine, PERDURE_HTTP_PORT="0")
    async with perdure("serve", env=env) as process:
        log = await said(process, "Gateway: ")
        url = by(lines(log), lines(log)[-1]["event"])["event"].removeprefix("Gateway: ")
        async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
            missing = await http.get("/v1/runs/run_of_nobody", params={"q": PROMPT})
            await http.post("/v1/runs", json={"agent": "shop", "input": PROMPT, "nope": ORDER})
            await http.get(f"/nowhere/{quote(ORDER)}")
            writer = (await asyncio.open_connection(*url.removeprefix("http://").split(":")))[1]
            writer.write(f"{PROMPT}\r\n\r\n".encode())
            writer.close()
        log += await stopped(process)
    read = lines(log)
    assert missing.status_code in (404, 422)
    asked = [line for line in read if line["logger"] == "perdure.gateway.access"]
    assert [(each["method"], each.get("route"), each["status"]) for each in asked] == [
        ("GET", "/v1/runs/{run_id}", missing.status_code),
        ("POST", "/v1/runs", 422),
        ("GET", None, 404),
    ]
    assert asked[0].get("run_id") == ("run_of_nobody" if missing.status_code == 404 else None)
    assert found(log, (*CANARIES, *SECRETS)) == []
