"""A real Temporal server, a real worker and a real model endpoint, for one test or many.

`Engine.run` is how tests run Runs: each Run that goes through it is checked for the
invariants, whether or not the test thinks of them.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError

from perdure.activities.pace import Pace
from perdure.activities.transcripts import Transcripts
from perdure.agents.agent import Agent
from perdure.agents.registry import Registry
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs import contract, pages
from perdure.runs.contract import RunPage, RunPageRequest
from perdure.runs.errors import ErrorCode
from perdure.runs.events import Event
from perdure.runs.messages import wire
from perdure.runs.run import Run
from perdure.runs.steps import Mark
from perdure.runs.transcript import advance, messages
from perdure.sessions.contract import SessionReport, workflow_id
from perdure.worker import build, endpoints_of
from tests.harness.scripted_openai import ScriptedOpenAI
from tests.harness.session_rules import assert_session, is_at_rest, started_runs

TIMES = {
    "requested_at",
    "created_at",
    "started_at",
    "completed_at",
    "last_progress_at",
    "at",
    "total_duration_ms",
    "resumed_at",
    "since",
    "asked_at",
    "expires_at",
    "model_aborted_after_ms",
}
"""Workflow and history differ by milliseconds in these, and in nothing else."""


class Engine:
    """One worker on a task queue of its own, in front of a scripted model."""

    def __init__(self, client: Client, model: ScriptedOpenAI, task_queue: str) -> None:
        self.client = client
        self.model = model
        self.task_queue = task_queue
        self.transcripts = Transcripts()
        self.pace: Pace | None = None
        self.manager = RunManager(client, task_queue)
        self.settings = Settings(
            task_queue=task_queue, openai_base_url=model.base_url, openai_api_key="test-key-1234"
        )

    @asynccontextmanager
    async def serving(self, *agents: Agent) -> AsyncIterator["Engine"]:
        """Run a worker that has these agents."""
        registry = Registry()
        for agent in agents:
            registry.add(agent, "test")
        endpoints = endpoints_of(self.settings)
        shared = self.transcripts, self.pace
        try:
            async with build(self.client, registry, endpoints, self.settings, *shared):
                # A start looks for a worker at once, and again after a third of a second.
                await soon(self._is_polled, every_s=0.01)
                yield self
        finally:
            await endpoints.close()

    async def _is_polled(self) -> bool:
        request = DescribeTaskQueueRequest(
            namespace=self.client.namespace,
            task_queue=TaskQueue(name=self.task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        try:
            found = await self.client.workflow_service.describe_task_queue(request)
        except RPCError:  # a busy server may drop a call; only the next one matters
            return False
        return bool(found.pollers)

    async def start(self, agent: str, text: str = "Go.", **options: Any) -> str:
        """Start a Run."""
        return await self.manager.start_run(agent, text, **options)

    async def run(self, agent: str, text: str = "Go.", **options: Any) -> Run:
        """Execute a Run to its end and check its invariants."""
        return await self.ended(await self.start(agent, text, **options))

    async def ended(self, run_id: str) -> Run:
        """Wait for a Run's end and check its invariants."""
        events = [event async for event in self.manager.events(run_id)]
        run = await self.manager.get_run(run_id)
        assert_event_stream(events, run)
        await self.assert_projection_equals_query(run)
        assert_digests(run)
        assert self.model.violations == []
        return run

    async def queried(self, run_id: str) -> Run:
        """Return the Run as its workflow answers it, page by page."""
        handle = self.client.get_workflow_handle(run_id)
        found: list[RunPage] = []
        after: int | None = 0
        while after is not None:
            page: RunPage = await handle.query(
                contract.RUN_QUERY, RunPageRequest(after_step=after), result_type=RunPage
            )
            found.append(page)
            after = page.next_after_step
        return pages.joined(found)

    async def assert_projection_equals_query(self, run: Run) -> None:
        """The Run read from the history equals the one that the workflow holds."""
        if run.error is not None and run.error.code is ErrorCode.TERMINATED:
            return  # the workflow was never told, so it still thinks that it runs
        queried = await self.queried(run.run_id)
        found = differences(without_times(run), without_times(queried))
        assert not found, "\n".join(found)

    async def projected_from_start(self, run_id: str) -> Run:
        """Return the Run folded from its very first execution on."""
        async for event in self.manager.events(run_id):
            last = event
        run = getattr(last, "run", None)
        assert isinstance(run, Run)
        return run

    async def histories(self, workflow_id: str) -> list[str]:
        """Return the history of each execution of a Run or Session, oldest first, as JSON."""
        return [history.to_json() for history in await self.executions(workflow_id)]

    async def executions(self, workflow_id: str) -> list[WorkflowHistory]:
        """Return the history of each execution, oldest first."""
        info = await self.client.get_workflow_handle(workflow_id).describe()
        execution: str = info.raw_description.workflow_execution_info.first_run_id
        found: list[WorkflowHistory] = []
        while execution:
            handle = self.client.get_workflow_handle(workflow_id, run_id=execution)
            history = await handle.fetch_history()
            found.append(history)
            last = history.events[-1].workflow_execution_continued_as_new_event_attributes
            execution = last.new_execution_run_id
        return found

    async def rest(self, session_id: str, *adopted: str) -> SessionReport:
        """Wait until nothing goes on in a Session, and check its invariants.

        Args:
            session_id: Which Session.
            adopted: Runs that an earlier Session of this name has left to it.
        """
        await soon(partial(is_at_rest, self.manager, session_id), 60)
        histories = await self.executions(workflow_id(session_id))
        run_ids = [*adopted, *started_runs(histories)]
        runs = [await self.ended(run_id) for run_id in run_ids]
        events = [[event async for event in self.manager.events(run.run_id)] for run in runs]
        handle = self.manager.session(session_id)
        report = await handle.get()
        assert_session(report, runs, events, await handle.messages())
        return report


def assert_event_stream(events: Sequence[Event], run: Run) -> None:
    """Gapless from 0; a terminal event at the end, and before nothing but a resumption."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    for event, following in pairwise(events):
        assert not hasattr(event, "stop_reason") or following.type == "run.resumed"
    assert hasattr(events[-1], "stop_reason")
    carried = getattr(events[-1], "run", None)
    assert isinstance(carried, Run)
    assert without_times(carried) == without_times(run)


def assert_digests(run: Run) -> None:
    """Each answer's digest is the one of the messages that the Run is made of."""
    marks = [Mark()]
    for message in messages(run):
        marks.append(advance(marks[-1], wire(message)))
    compacted = run.compaction.step if run.compaction else 0
    for step in run.steps[compacted:]:
        if step.kind == "model" and step.status == "completed" and step.purpose != "compact":
            assert step.mark is not None
            assert step.mark == marks[step.mark.count]


def without_times(value: Any) -> Any:
    """Return a Run as data, without the timestamps."""
    if isinstance(value, Run):
        return without_times(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in TIMES}
    if isinstance(value, list):
        return [without_times(each) for each in value]
    return value


def differences(left: Any, right: Any, at: str = "run") -> list[str]:
    """Return where two values of JSON differ, so that a failure can be read."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = sorted(left.keys() | right.keys())
        return [d for k in keys for d in differences(left.get(k), right.get(k), f"{at}.{k}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = enumerate(zip(left, right, strict=True))
        return [d for n, (a, b) in pairs for d in differences(a, b, f"{at}[{n}]")]
    return [] if left == right else [f"{at}: {left!r} is not {right!r}"]


async def soon(condition: Any, timeout_s: float = 20.0, every_s: float = 0.05) -> None:
    """Wait until an async condition holds; look `every_s` seconds.

    Raises:
        TimeoutError: When it does not hold in time.
    """
    async with asyncio.timeout(timeout_s):
        while not await condition():  # noqa: ASYNC110 - what is waited for is another process's
            await asyncio.sleep(every_s)


__all__ = ["Engine", "assert_event_stream", "soon", "without_times"]
