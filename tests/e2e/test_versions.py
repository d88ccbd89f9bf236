"""Worker versioning: a Run stays on the version it began on, new ones start on the current one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest

from perdure import Agent, tool
from perdure.engine.deployment import make_first_current
from perdure.engine.dev_server import DYNAMIC_CONFIG, binary
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError, NoWorker
from perdure.runs.run import Run
from tests.conftest import served_apart
from tests.e2e.ledger import workers
from tests.e2e.test_drain import asked_to_stop
from tests.harness.engine import Engine, soon
from tests.harness.processes import ended, said
from tests.harness.scripted_openai import (
    Gate,
    RecordedRequest,
    Reply,
    ScriptedOpenAI,
    call,
    text,
    tool_calls,
)


def serving(engine: Engine, build_id: str) -> AbstractAsyncContextManager[Engine]:
    """Serve an agent that can tell which version it is executed by."""

    @tool(effect="read")
    def version() -> str:
        """Tell the version."""
        return build_id

    version_of = {"deployment_name": engine.task_queue, "build_id": build_id}
    engine.settings = engine.settings.model_copy(update=version_of)
    return engine.serving(Agent(name="teller", tools=[version]))


async def asked(engine: Engine, command: str, build_id: str) -> bytes | None:
    """Return what Temporal's command line says of a version; none when it refuses."""
    options = ["--deployment-name", engine.task_queue, "--build-id", build_id]
    address = ["--address", engine.client.service_client.config.target_host]
    process = await asyncio.create_subprocess_exec(
        *(binary(), "worker", "deployment", *command.split(), *options, *address),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    return told if process.returncode == 0 else None


async def make_current(engine: Engine, build_id: str) -> None:
    """Do what docs/operations.md says, once Temporal knows all that the version polls."""

    async def is_current() -> bool:
        return await asked(engine, "set-current-version --yes", build_id) is not None

    await soon(is_current)


async def drained(engine: Engine, build_id: str) -> None:
    """Wait until Temporal says that no Run is on a version any more."""

    async def is_drained() -> bool:
        described = json.loads(await asked(engine, "describe-version -o json", build_id) or b"{}")
        return described.get("drainageInfo", {}).get("drainageStatus") == "drained"

    await soon(is_drained, 60, every_s=0.5)


def told(run: Run) -> list[str | None]:
    """Return which versions executed a Run, turn by turn."""
    return [call.result for call in run.tool_calls]


def ask_twice(request: RecordedRequest) -> Reply:
    asked = sum(message["role"] == "assistant" for message in request.messages)
    return text("Done.") if asked == 2 else tool_calls(call("version", {}))


def asked_since(request: RecordedRequest) -> Reply:
    """Answer as `ask_twice`, in a conversation that had turns before."""
    said = [message["role"] for message in request.messages]
    since = said[len(said) - said[::-1].index("user") :]
    return text("Done.") if since.count("assistant") == 2 else tool_calls(call("version", {}))


def ask_until_b(request: RecordedRequest) -> Reply:
    done = request.messages[-1]["content"] == "B"
    return text("Done.") if done else tool_calls(call("version", {}))


async def test_a_run_stays_on_its_version_while_new_ones_start_on_the_current_one(
    engine: Engine,
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("version", {})).hold(gate)])
    engine.model.respond_with(ask_twice)
    async with serving(engine, "A"):
        assert await make_first_current(engine.client, engine.settings)
        long = await engine.start("teller")
        await gate.reached
        async with serving(engine, "B"):
            assert await make_first_current(engine.client, engine.settings)
            assert told(await engine.run("teller")) == ["A", "A"], "B is not current by itself"
            await make_current(engine, "B")
            assert told(await engine.run("teller")) == ["B", "B"]
            gate.open()
            assert told(await engine.ended(long)) == ["A", "A"]


async def test_a_session_goes_on_with_the_current_version_while_its_runs_stay_on_theirs(
    engine: Engine,
) -> None:
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("version", {})).hold(gate)])
    engine.model.respond_with(asked_since)
    async with serving(engine, "A"):
        assert await make_first_current(engine.client, engine.settings)
        session = engine.manager.session(engine.task_queue)
        first = await session.start_run("teller", "1")
        await gate.reached
        async with serving(engine, "B"):
            await make_current(engine, "B")
            second = await session.start_run("teller", "2", on_busy="enqueue")
            gate.open()
            runs = [await engine.ended(each.run_id) for each in (first, second)]
            third = await session.start_run("teller", "3")
            runs.append(await engine.ended(third.run_id))
            report = await engine.rest(engine.task_queue)
    assert [told(run) for run in runs] == [["A", "A"], ["B", "B"], ["B", "B"]]
    assert report.runs == 3


async def test_a_run_is_refused_when_what_polls_is_not_the_version_it_would_start_on(
    engine: Engine,
) -> None:
    async with serving(engine, "A"):
        with pytest.raises(NoWorker, match=r"start on a worker without .* is version 'A' of"):
            await engine.start("teller")


OFTEN = {
    "limit.historyCount.suggestContinueAsNew": 40,
    "matching.wv.VersionDrainageStatusVisibilityGracePeriod": '"1s"',
    "matching.wv.VersionDrainageStatusRefreshInterval": '"1s"',
}
"""Runs continue as new after a few turns, and a version is drained at once, not in minutes."""


@pytest.fixture
async def impatient(tmp_path: Path, model: ScriptedOpenAI) -> AsyncIterator[Engine]:
    """A server on which what takes long happens soon."""
    async with served_apart(tmp_path, model, DYNAMIC_CONFIG | OFTEN) as engine:
        yield engine


async def test_fifty_runs_go_through_an_upgrade_and_the_old_worker_is_stopped_when_drained(
    impatient: Engine,
) -> None:
    engine = impatient
    gate = Gate(timeout_s=120)
    engine.model.respond_with(lambda request: ask_twice(request).hold(gate))
    worker = workers(engine)
    named = engine.task_queue
    async with AsyncExitStack() as processes:
        old = await processes.enter_async_context(worker(deployment_name=named, build_id="A"))
        await said(old, "Worker ready")
        run_ids = [await engine.start("painter") for _ in range(25)]
        await gate.reached
        new = await processes.enter_async_context(worker(deployment_name=named, build_id="B"))
        await said(new, "Worker ready")
        await make_current(engine, "B")
        run_ids += [await engine.start("painter") for _ in range(25)]
        gate.open()
        runs = await asyncio.gather(*map(engine.manager.wait, run_ids))
        assert {run.output for run in runs} == {"Done."}
        assert [told(run) for run in runs] == [["A", "A"]] * 25 + [["B", "B"]] * 25
        await drained(engine, "A")
        await asked_to_stop(old)
        assert await ended(old) == 0
        assert told(await engine.run("painter")) == ["B", "B"]


async def test_a_long_run_moves_to_the_current_version_when_it_continues_as_new(
    impatient: Engine,
) -> None:
    engine = impatient
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("version", {})).hold(gate)])
    engine.model.respond_with(ask_until_b)
    async with serving(engine, "A"):
        assert await make_first_current(engine.client, engine.settings)
        run_id = await engine.start("teller")
        await gate.reached
        async with serving(engine, "B"):
            assert await make_first_current(engine.client, engine.settings)
            await make_current(engine, "B")
            gate.open()
            run = await engine.ended(run_id)
    assert told(run)[0] == "A"
    assert told(run)[-1] == "B"


@pytest.mark.parametrize("only", ["deployment_name", "build_id"])
def test_half_a_version_is_refused(only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PERDURE_{only.upper()}", "one")
    with pytest.raises(ConfigurationError, match="go together, and only one is set"):
        Settings.configured()
