"""`RunManager` against the real server: refusals at the edge, reading, listing, cancelling."""

import pytest
from temporalio.client import Client

from perdure import Agent, Limits
from perdure.client.listing import RunFilter
from perdure.client.manager import RunManager
from perdure.runs.errors import (
    ErrorCode,
    InvalidRequest,
    NoWorker,
    RunAlreadyExists,
    RunNotFound,
)
from perdure.runs.limits import MAX_INPUT_BYTES
from perdure.runs.messages import AssistantMessage, UserMessage
from perdure.runs.start import ContextBundle
from perdure.runs.status import RunStatus
from tests.harness.engine import Engine, soon
from tests.harness.scripted_openai import Gate, status, text

AGENT = Agent(name="speaker", instructions="Speak.")


@pytest.mark.parametrize(
    ("agent", "given", "options", "code"),
    [
        ("speaker", "", {}, ErrorCode.PROVIDER_REFUSED_REQUEST),
        ("speaker", " \n", {}, ErrorCode.PROVIDER_REFUSED_REQUEST),
        ("speaker", "x" * (MAX_INPUT_BYTES + 1), {}, ErrorCode.PAYLOAD_TOO_LARGE),
        ("no such agent!", "Go.", {}, ErrorCode.PROVIDER_REFUSED_REQUEST),
        ("speaker", "Go.", {"run_id": "a b"}, ErrorCode.PROVIDER_REFUSED_REQUEST),
        ("speaker", "Go.", {"session_id": "a' OR '1"}, ErrorCode.PROVIDER_REFUSED_REQUEST),
    ],
)
async def test_bad_input_is_refused_before_anything_starts(
    engine: Engine, agent: str, given: str, options: dict[str, str], code: ErrorCode
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.start(agent, given, **options)
    assert refused.value.code is code
    assert refused.value.hint


async def test_a_start_without_any_worker_is_refused(client: Client) -> None:
    with pytest.raises(NoWorker, match="perdure worker"):
        await RunManager(client, "nobody-polls-this").start_run("speaker", "Go.")


async def test_an_id_can_be_used_once(engine: Engine) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("speaker", run_id="once-only-1")
        with pytest.raises(RunAlreadyExists):
            await engine.start("speaker", run_id="once-only-1")
    assert run.run_id == "once-only-1"
    assert len(engine.model.requests) == 1


async def test_an_unknown_run_is_not_found_by_any_call(engine: Engine) -> None:
    for reading in (
        engine.manager.get_run("nope"),
        engine.manager.wait("nope"),
        engine.manager.cancel("nope"),
        engine.manager.pending_steps("nope"),
    ):
        with pytest.raises(RunNotFound, match="nope"):
            await reading


async def test_a_run_gets_its_context_and_keeps_its_metadata(engine: Engine) -> None:
    engine.model.script([text("You are Ada.")])
    context = ContextBundle(
        messages=(UserMessage(content="I am Ada."), AssistantMessage(content="Hello Ada."))
    )
    async with engine.serving(AGENT):
        run = await engine.run("speaker", "Who am I?", context=context, metadata={"ticket": "7"})
    assert [m["content"] for m in engine.model.requests[0].messages] == [
        "Speak.",
        "I am Ada.",
        "Hello Ada.",
        "Who am I?",
    ]
    assert run.metadata == {"ticket": "7"}


async def test_lone_surrogates_in_the_input_do_not_reach_the_wire(engine: Engine) -> None:
    engine.model.script([text("Fine.")])
    async with engine.serving(AGENT):
        run = await engine.run("speaker", "bad \ud83d and good 😀")
    assert run.input_message == "bad \ufffd and good 😀"


async def test_events_can_be_read_again_from_any_number(engine: Engine) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        run = await engine.run("speaker")
        every = [event async for event in engine.manager.events(run.run_id)]
        for number in range(-1, len(every) - 1):
            later = [e async for e in engine.manager.events(run.run_id, starting_after=number)]
            assert later == every[number + 1 :]


async def test_a_run_is_readable_with_no_worker_alive(engine: Engine) -> None:
    gate = Gate()
    engine.model.script([text("Half ", "done").hold(gate, before_chunk=2), text("Done.")])
    async with engine.serving(AGENT):
        run_id = await engine.start("speaker")
        await gate.reached
        running = await engine.manager.get_run(run_id)
        pending = await engine.manager.pending_steps(run_id)
    assert running.status is RunStatus.RUNNING
    assert running.current_step == 1
    assert [each.step for each in pending] == [1]
    without_worker = await engine.manager.get_run(run_id)
    assert without_worker.status is RunStatus.RUNNING
    await engine.client.get_workflow_handle(run_id).terminate()
    assert (await engine.manager.wait(run_id)).status is RunStatus.CANCELLED


async def test_lists_filter_by_status_agent_session_and_time_and_come_in_pages(
    engine: Engine,
) -> None:
    engine.model.respond_with(lambda request: text("Done."))
    session = f"session-{engine.task_queue}"
    async with engine.serving(AGENT):
        runs = [await engine.run("speaker", session_id=session) for _ in range(5)]
        engine.model.script([status(401)])
        failed = await engine.run("speaker", session_id=session)

        async def all_indexed() -> bool:
            found = await engine.manager.list_runs(RunFilter(session_id=session))
            return len([r for r in found.runs if r.status.is_terminal]) == 6

        await soon(all_indexed)
        ids = {run.run_id for run in runs}
        completed = await engine.manager.list_runs(
            RunFilter(session_id=session, status=RunStatus.COMPLETED, agent="speaker")
        )
        assert {found.run_id for found in completed.runs} == ids
        tokens = {run.run_id: run.total_tokens for run in runs}
        assert {found.run_id: found.total_tokens for found in completed.runs} == tokens
        only = await engine.manager.list_runs(
            RunFilter(session_id=session, status=RunStatus.FAILED)
        )
        assert [found.run_id for found in only.runs] == [failed.run_id]
        later = await engine.manager.list_runs(
            RunFilter(session_id=session, created_after=runs[2].created_at)
        )
        assert len(later.runs) == 3

        paged: list[str] = []
        cursor = None
        while True:
            page = await engine.manager.list_runs(
                RunFilter(session_id=session), limit=4, cursor=cursor
            )
            paged += [found.run_id for found in page.runs]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert paged == [failed.run_id, *[run.run_id for run in reversed(runs)]]
        with pytest.raises(InvalidRequest, match="cursor"):
            await engine.manager.list_runs(cursor="!")


async def test_execute_run_yields_events_until_the_end(engine: Engine) -> None:
    engine.model.script([text("Done.")])
    async with engine.serving(AGENT):
        types = [
            event.type
            async for event in engine.manager.execute_run("speaker", "Go.", limits=Limits())
        ]
    assert types == [
        "run.queued",
        "run.started",
        "run.step.started",
        "run.step.completed",
        "run.completed",
    ]
