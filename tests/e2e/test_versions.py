"""Worker versioning: a Run stays on the version it began on, new ones start on the current one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from perdure import Agent, tool
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import Address, connect
from perdure.engine.deployment import make_first_current
from perdure.engine.dev_server import DYNAMIC_CONFIG, DevServer, binary
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError, NoWorker
from perdure.runs.run import Run
from tests.conftest import free_port
from tests.harness.engine import Engine, soon
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


async def make_current(engine: Engine, build_id: str, address: str) -> None:
    """Do what docs/operations.md says, once Temporal knows all that the version polls."""
    command = f"worker deployment set-current-version --yes --build-id {build_id}"
    options = ["--deployment-name", engine.task_queue, "--address", address]

    async def is_current() -> bool:
        process = await asyncio.create_subprocess_exec(
            binary(), *command.split(), *options, stdout=asyncio.subprocess.PIPE
        )
        await process.communicate()
        return process.returncode == 0

    await soon(is_current)


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
    engine: Engine, temporal: DevServer
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
            await make_current(engine, "B", str(temporal.address))
            assert told(await engine.run("teller")) == ["B", "B"]
            gate.open()
            assert told(await engine.ended(long)) == ["A", "A"]


async def test_a_session_goes_on_with_the_current_version_while_its_runs_stay_on_theirs(
    engine: Engine, temporal: DevServer
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
            await make_current(engine, "B", str(temporal.address))
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


@pytest.fixture
async def short_histories(tmp_path: Path, model: ScriptedOpenAI) -> AsyncIterator[Engine]:
    """A server on which Runs continue as new after a few turns."""
    limits = DYNAMIC_CONFIG | {"limit.historyCount.suggestContinueAsNew": 40}
    server = DevServer(Address("127.0.0.1", free_port()), tmp_path, limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPORAL_ADDRESS", str(server.address))
        await server.start()
        client = await connect()
    await register_search_attributes(client)
    yield Engine(client, model, "queue")
    await server.stop()


async def test_a_long_run_moves_to_the_current_version_when_it_continues_as_new(
    short_histories: Engine,
) -> None:
    engine = short_histories
    gate = Gate(timeout_s=60)
    engine.model.script([tool_calls(call("version", {})).hold(gate)])
    engine.model.respond_with(ask_until_b)
    async with serving(engine, "A"):
        assert await make_first_current(engine.client, engine.settings)
        run_id = await engine.start("teller")
        await gate.reached
        async with serving(engine, "B"):
            assert await make_first_current(engine.client, engine.settings)
            await make_current(engine, "B", engine.client.service_client.config.target_host)
            gate.open()
            run = await engine.ended(run_id)
    assert told(run)[0] == "A"
    assert told(run)[-1] == "B"


@pytest.mark.parametrize("only", ["deployment_name", "build_id"])
def test_half_a_version_is_refused(only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PERDURE_{only.upper()}", "one")
    with pytest.raises(ConfigurationError, match="go together, and only one is set"):
        Settings.configured()
