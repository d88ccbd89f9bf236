"""Several workers of one host, each with a part of the work: which does what, and who may die."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack

from temporalio.api.history.v1 import HistoryEvent

from perdure.runs.contract import CALL_MODEL
from perdure.runs.limits import Timeouts
from perdure.runs.run import Run
from perdure.runs.status import RunStatus
from tests.e2e.ledger import Ledger, Worker
from tests.e2e.test_drain import asked_to_stop
from tests.harness.engine import Engine, soon
from tests.harness.processes import Process, ended, kill, said
from tests.harness.scripted_openai import RecordedRequest, Reply, call, text, tool_calls

RUNS = 12


def executed_by(events: list[HistoryEvent]) -> Iterator[tuple[str, str]]:
    """Yield what was executed, and the process that did it."""
    kinds: dict[int, str] = {}
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled = event.activity_task_scheduled_event_attributes
            kinds[event.event_id] = scheduled.activity_type.name
        elif event.HasField("activity_task_started_event_attributes"):
            started = event.activity_task_started_event_attributes
            yield kinds[started.scheduled_event_id], started.identity
        elif event.HasField("workflow_task_started_event_attributes"):
            yield "workflow", event.workflow_task_started_event_attributes.identity


async def places(engine: Engine, run: Run) -> dict[str, set[int]]:
    """Return which processes executed each kind of thing in a Run."""
    found: dict[str, set[int]] = {}
    for execution in await engine.executions(run.run_id):
        for kind, identity in executed_by(list(execution.events)):
            found.setdefault(kind, set()).add(int(identity.partition("@")[0]))
    return found


async def waits_for_a_worker(engine: Engine, run_id: str, of: str) -> None:
    async def says_so() -> bool:
        waiting = (await engine.manager.get_run(run_id)).waiting_on
        return waiting is not None and waiting.type == "worker" and of in waiting.detail

    await soon(says_so, 60)


async def test_each_worker_does_what_its_role_says_and_runs_wait_for_the_one_that_is_missing(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    asked = call("look", ledger.entry("one")), call("render", {"what": "it"})
    engine.model.script([tool_calls(*asked), text("Done.")])
    async with AsyncExitStack() as processes:
        deciding = await processes.enter_async_context(worker(worker_role="workflows"))
        await said(deciding, "Worker ready")
        run_id = await engine.start("painter", timeouts=Timeouts(heartbeat_s=3))
        await waits_for_a_worker(engine, run_id, CALL_MODEL)
        only = await processes.enter_async_context(worker(worker_role="activities"))
        await ledger.written()
        await kill(only)
        ledger.open()
        await waits_for_a_worker(engine, run_id, "tool.")
        tools = worker(tool_queue=f"{engine.task_queue}-tools")
        rendering = await processes.enter_async_context(tools)
        acting = await processes.enter_async_context(worker(worker_role="activities"))
        run = await engine.ended(run_id)
    assert run.output == "Done."
    assert [each.result for each in run.tool_calls] == ["recorded one", "rendered it"]
    assert await places(engine, run) == {
        "workflow": {deciding.pid},
        CALL_MODEL: {only.pid, acting.pid},
        "tool.look": {acting.pid},
        "tool.render": {rendering.pid},
    }


class Busy:
    """A model that pays and renders in each of three turns."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __call__(self, request: RecordedRequest) -> Reply:
        name = next(each["content"] for each in request.messages if each["role"] == "user")
        turn = sum(each["role"] == "assistant" for each in request.messages)
        if turn == 3:
            return text("Done.")
        paid = call("pay", self.ledger.entry(f"{name} {turn}"))
        return tool_calls(paid, call("render", {"what": f"{name} {turn}"}))


async def test_workers_of_every_role_are_replaced_under_load_and_nothing_is_lost_or_repeated(
    engine: Engine, worker: Worker, ledger: Ledger
) -> None:
    engine.model.respond_with(Busy(ledger))
    async with AsyncExitStack() as processes:

        async def started() -> list[Process]:
            roles = [
                {"worker_role": "workflows"},
                {"worker_role": "activities"},
                {"tool_queue": f"{engine.task_queue}-tools"},
            ]
            made = [await processes.enter_async_context(worker(**role)) for role in roles]
            await asyncio.gather(*(said(each, "Worker ready") for each in made))
            return made

        old = await started()
        run_ids = [await engine.start("painter", f"run {number}") for number in range(RUNS)]
        await ledger.written(RUNS)
        new = await started()
        await asyncio.gather(*map(asked_to_stop, old))
        ledger.open()
        assert await asyncio.gather(*map(ended, old)) == [0] * len(old)
        runs = await asyncio.gather(*map(engine.ended, run_ids))
        done = [await places(engine, run) for run in runs]
    assert {run.status for run in runs} == {RunStatus.COMPLETED}
    calls = [each for run in runs for each in run.tool_calls]
    assert all(each.error is None for each in calls)
    paid = [json.loads(each.arguments)["entry"] for each in calls if each.name == "pay"]
    assert sorted(ledger.lines) == sorted(paid)
    deciding, acting, rendering = ({one.pid, two.pid} for one, two in zip(old, new, strict=True))
    assert set.union(*(each["workflow"] for each in done)) == deciding
    assert set.union(*(each["tool.render"] for each in done)) <= rendering
    assert set.union(*(each["tool.pay"] for each in done)) <= acting
