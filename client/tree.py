"""A Run with the Runs of the agents it has called, and those of theirs.

Who called whom stands in the Steps of each Run; so the tree is right at once, while a list of
Temporal's is a moment behind.
"""

import asyncio
from datetime import datetime

from pydantic import computed_field
from temporalio.client import Client

from perdure.client import follow
from perdure.client.deciding import Deciding, OpenAction, open_actions
from perdure.runs.errors import RunError, RunNotFound
from perdure.runs.frozen import Frozen
from perdure.runs.limits import MAX_AGENT_DEPTH
from perdure.runs.run import Run
from perdure.runs.status import RunStatus, WaitingOn
from perdure.runs.steps import Step
from perdure.runs.usage import Usage

READ_AT_ONCE = 8
"""Histories of Runs: each may be megabytes."""
MAX_RUNS = 500
"""Runs in one tree."""


class RunTree(Frozen):
    """One Run of a tree, with those below it."""

    run_id: str
    agent: str
    status: RunStatus | None
    """None where Temporal has no such Run: it was deleted, or has not begun yet."""
    step: int | None = None
    """The Step of the Run above that it is."""
    waiting_on: WaitingOn | None = None
    actions: tuple[OpenAction, ...] = ()
    """What people are to decide for it."""
    error: RunError | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_duration_ms: int | None = None
    usage: Usage
    """With that of the Runs below it that have ended."""
    children: tuple["RunTree", ...] = ()
    children_left_out: int = 0
    """Those that were not read: the tree was large enough."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_tokens(self) -> int:
        """Input plus output tokens of all model calls."""
        return self.usage.total_tokens

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total_cost(self) -> float:
        """USD, of the model calls whose price is known."""
        return self.usage.cost

    def waits(self) -> tuple[OpenAction, ...]:
        """Return what people are to decide, for this Run and those below."""
        return sum((child.waits() for child in self.children), self.actions)


class _Reader:
    def __init__(self, client: Client, *, running_only: bool) -> None:
        self._client = client
        self._running_only = running_only
        self._turns = asyncio.Semaphore(READ_AT_ONCE)
        self._left = MAX_RUNS

    async def of(self, run: Run, depth: int, step: int | None = None) -> RunTree:
        """Return the tree of a Run."""
        called = [each for each in run.steps[run.copied_steps :] if self._counts(each)]
        read = called[-self._left :] if depth and self._left > 0 else []
        self._left -= len(read)
        below = await asyncio.gather(*[self._below(run, each, depth - 1) for each in read])
        return RunTree(
            run_id=run.run_id,
            agent=run.agent,
            status=run.status,
            step=step,
            waiting_on=run.waiting_on,
            actions=open_actions(run),
            error=run.error,
            created_at=run.created_at,
            started_at=run.started_at,
            completed_at=run.completed_at,
            total_duration_ms=run.total_duration_ms,
            usage=run.usage,
            children=tuple(below),
            children_left_out=len(called) - len(read),
        )

    def _counts(self, step: Step) -> bool:
        is_wanted = step.status == "running" or not self._running_only
        return step.child_run_id is not None and is_wanted

    async def _below(self, parent: Run, step: Step, depth: int) -> RunTree:
        run_id = step.child_run_id or ""
        try:
            async with self._turns:
                run = await follow.latest(self._client, run_id)
        except RunNotFound:
            calls = (each for each in parent.tool_calls if each.step == step.number)
            agent = next((each.policy.target for each in calls), None) or step.name
            used = step.child_usage or Usage()
            return RunTree(run_id=run_id, agent=agent, status=None, step=step.number, usage=used)
        return await self.of(run, depth, step.number)


async def tree_of(client: Client, run: Run, *, running_only: bool = False) -> RunTree:
    """Return a Run with the Runs below it.

    Args:
        client: Connected.
        run: The Run at the top. Steps that a fork took over are not its own.
        running_only: Leave out the Runs that have ended.

    Raises:
        EngineUnavailable: When Temporal does not answer.
    """
    reader = _Reader(client, running_only=running_only)
    return await reader.of(run, MAX_AGENT_DEPTH)


class Branching(Deciding):
    """The part of `RunManager` that looks below a Run, at the Runs of agents it has called."""

    async def tree(self, run_id: str, *, running_only: bool = False) -> RunTree:
        """Return a Run with the Runs of the agents that it has called, and those of theirs.

        Runs that were taken over by a fork belong to the original. At most 500 Runs are read.

        Args:
            run_id: The Run at the top.
            running_only: Leave out the Runs that have ended.

        Raises:
            RunNotFound: When there is no such Run.
            EngineUnavailable: When Temporal does not answer.
        """
        run = await follow.latest(self.client, run_id)
        return await tree_of(self.client, run, running_only=running_only)
