"""Clients and workers that do not share a storage: a clear error, soon, and no stall."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure import Agent, tool
from perdure.client.manager import RunManager
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.runs.errors import ErrorCode, NoWorker, StorageUnavailable
from perdure.runs.status import RunStatus
from tests.engine.noise import noise
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, call, text, tool_calls

LARGE = noise(1_000_000)


@tool(effect="read")
def produce(size: int) -> str:
    """Produce so many bytes."""
    return noise(size)


AGENT = Agent(name="packer", tools=[produce])


@asynccontextmanager
async def elsewhere(engine: Engine, folder: Path) -> AsyncIterator[Engine]:
    """Run a worker whose storage is another directory."""
    client = await connect(Settings(storage_dir=folder))
    other = Engine(client, engine.model, engine.task_queue)
    async with other.serving(AGENT):
        yield other


async def test_a_worker_with_another_directory_ends_the_run_with_a_clear_error(
    engine: Engine, tmp_path: Path
) -> None:
    async with elsewhere(engine, tmp_path):
        run_id = await engine.start("packer", LARGE)
        async with asyncio.timeout(30):
            run = await engine.manager.wait(run_id)
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.code is ErrorCode.STORAGE_UNAVAILABLE
    assert str(tmp_path) in run.error.message
    assert "PERDURE_STORAGE_DIR" in run.error.hint
    assert engine.model.requests == []


async def test_a_run_goes_on_when_what_was_missing_is_there_in_time(
    engine: Engine, tmp_path: Path
) -> None:
    engine.model.script([text("Read.")])
    shared = Path(os.environ["PERDURE_STORAGE_DIR"])
    async with elsewhere(engine, tmp_path / "mounted"):
        run_id = await engine.start("packer", LARGE)
        await task_failed(engine, run_id)
        (tmp_path / "mounted").symlink_to(shared)
        run = await engine.ended(run_id)
    assert run.status is RunStatus.COMPLETED
    assert engine.model.requests[0].messages[-1]["content"] == LARGE


async def task_failed(engine: Engine, run_id: str) -> None:
    """Wait until a worker failed to begin a Run."""
    handle = engine.client.get_workflow_handle(run_id)
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.HasField("workflow_task_failed_event_attributes"):
            assert "PERDURE_STORAGE_DIR" in str(event)
            return


async def test_a_client_with_another_directory_says_so(engine: Engine, tmp_path: Path) -> None:
    engine.model.script([tool_calls(call("produce", {"size": 100_000}, id="a")), text("Done.")])
    engine.model.script([text("Read.")])
    stranger = RunManager(await connect(Settings(storage_dir=tmp_path)), engine.task_queue)
    async with engine.serving(AGENT):
        with_result = await engine.run("packer")
        with_input = await engine.run("packer", LARGE)
    assert (await stranger.get_run(with_result.run_id)).output == "Done.", "nothing large is read"
    for reading in (
        stranger.result(with_result.run_id, "a"),
        stranger.get_run(with_input.run_id),
        stranger.wait(with_input.run_id),
    ):
        with pytest.raises(StorageUnavailable, match="PERDURE_STORAGE_DIR"):
            await reading


async def test_a_result_that_can_not_be_kept_is_still_told(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    engine.model.script([tool_calls(call("produce", {"size": 100_000}, id="a")), text("Done.")])
    async with elsewhere(engine, tmp_path / "file") as other:
        run = await other.run("packer")
    [asked] = run.tool_calls
    assert (run.status, asked.status, asked.full) == (RunStatus.COMPLETED, "completed", None)
    assert "of 100000 bytes left out; they could not be kept" in (asked.result or "")
    assert await engine.manager.result(run.run_id, "a") == asked.result


async def test_a_start_that_can_not_store_its_input_starts_nothing(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no directory")
    manager = RunManager(await connect(Settings(storage_dir=tmp_path / "file")), engine.task_queue)
    async with engine.serving(AGENT):
        with pytest.raises(StorageUnavailable, match="could not be written"):
            await manager.start_run("packer", LARGE)
    assert engine.model.requests == []


async def test_a_request_that_no_worker_can_read_does_not_end_a_session(
    engine: Engine, tmp_path: Path
) -> None:
    engine.model.respond_with(lambda request: text("Hi."))
    stranger = RunManager(await connect(Settings(storage_dir=tmp_path)), engine.task_queue)
    async with engine.serving(AGENT):
        session = engine.manager.session("strange")
        await engine.ended((await session.start_run("packer", "Hello.")).run_id)
        with pytest.raises(NoWorker, match="can't answer"):
            await stranger.session("strange").start_run("packer", LARGE)

        async def is_back() -> bool:
            try:
                await session.start_run("packer", "Are you there?")
            except NoWorker:
                return False
            return True

        await soon(is_back)
        report = await engine.rest("strange")
    assert (report.runs, report.messages) == (2, 4)


def empty(folder: Path) -> None:
    """Delete everything that was stored."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()


async def test_a_run_that_can_not_be_read_does_not_block_its_session(
    engine: Engine, tmp_path: Path
) -> None:
    gate = Gate()
    engine.model.script([text("Hi.").hold(gate)])
    engine.model.respond_with(lambda request: text("Still here."))
    async with elsewhere(engine, tmp_path) as other:
        session = other.manager.session("unreadable")
        first = await session.start_run("packer", LARGE)
        await gate.reached
        empty(tmp_path)
        gate.open()
        second = await session.start_run("packer", "Are you there?", on_busy="enqueue")
        run = await other.manager.wait(second.run_id)
    assert run.output == "Still here."
    assert first.how == "begun"
