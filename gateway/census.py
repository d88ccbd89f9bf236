"""The census: what only the server knows of all Runs, counted now and then for Prometheus.

Every gateway that serves metrics takes one, and all count the same: take the `max` of them.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.live.watches import Watches
from perdure.runs import contract, metrics
from perdure.runs.metering import Instruments, Metric
from perdure.runs.status import RunStatus

EVERY_S = 15.0
"""As often as Prometheus looks, most often: eleven small requests to the server."""
WITHIN_S = 10.0
OPEN = "ExecutionStatus = 'Running'"
OPEN_RUN = f"{OPEN} AND WorkflowType = '{contract.RUN_WORKFLOW}'"
STUCK = f"{OPEN} AND TemporalReportedProblems IS NOT NULL"
PEOPLE = ("approval", "input", "pause", "limit")
"""What of `waiting_on` is a person's to do; only that can be searched for."""
AGES = {"1h": timedelta(hours=1), "24h": timedelta(hours=24)}
QUEUES = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
log = logging.getLogger(__name__)


class Census:
    """Counts.

    Args:
        client: Connected, or one that will connect when it is first used.
        task_queue: Whose workers are counted.
        watches: What this gateway watches.
        instruments: What records.
    """

    def __init__(
        self, client: Client, task_queue: str, watches: Watches, instruments: Instruments
    ) -> None:
        self._client = client
        self._task_queue = task_queue
        self._watches = watches
        self._instruments = instruments
        self._told = ""

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Count every 15 s while the block runs."""
        counting = asyncio.create_task(self._run())
        try:
            yield
        finally:
            counting.cancel()
            with suppress(asyncio.CancelledError):
                await counting

    async def _run(self) -> None:
        self._instruments.record(metrics.CENSUS, 0)
        while True:
            self._instruments.record(metrics.WATCHES, self._watches.count)
            self._instruments.record(metrics.FOLLOWERS, self._watches.readers)
            try:
                async with asyncio.timeout(WITHIN_S):
                    await self._count()
            except (RPCError, RuntimeError, TimeoutError) as exc:
                self._say(f"Runs could not be counted: {exc or type(exc).__name__}")
            else:
                self._instruments.record(metrics.CENSUS, time.time())
                self._told = ""
            await asyncio.sleep(EVERY_S)

    async def _count(self) -> None:
        for status in (RunStatus.PENDING, RunStatus.RUNNING):
            query = f"{OPEN_RUN} AND {contract.STATUS_ATTRIBUTE} = '{status}'"
            await self._counted(metrics.OPEN_RUNS, query, status=status.value)
        for what in PEOPLE:
            query = f"{OPEN_RUN} AND {contract.WAITING_ATTRIBUTE} = '{what}'"
            await self._counted(metrics.WAITING_RUNS, query, waiting_on=what)
        waits = contract.WAITING_ATTRIBUTE
        for name, age in AGES.items():
            since = (datetime.now(UTC) - age).isoformat(timespec="seconds")
            query = f"{OPEN_RUN} AND StartTime < '{since}' AND ({waits} IS NULL OR {waits} = '')"
            await self._counted(metrics.OLD_RUNS, query, than=name)
        try:
            await self._counted(metrics.STUCK_RUNS, STUCK)
        except RPCError as exc:
            if exc.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            self._say("The server can't tell which Runs are stuck: that takes Temporal 1.30.")
        for name, kind in QUEUES.items():
            await self._look(name, kind)

    async def _counted(self, metric: Metric, query: str, **labels: str) -> None:
        found = await self._client.count_workflows(query)
        self._instruments.record(metric, found.count, **labels)

    async def _look(self, name: str, kind: "TaskQueueType.ValueType") -> None:
        asked = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=self._task_queue),
            task_queue_type=kind,
            report_stats=True,
        )
        found = await self._client.workflow_service.describe_task_queue(asked)
        workers = {poller.identity for poller in found.pollers}
        self._instruments.record(metrics.POLLERS, len(workers), task_type=name)
        waiting, age = found.stats.approximate_backlog_count, found.stats.approximate_backlog_age
        self._instruments.record(metrics.BACKLOG, waiting, task_type=name)
        seconds = age.ToTimedelta().total_seconds() if waiting else 0.0
        self._instruments.record(metrics.BACKLOG_AGE, seconds, task_type=name)

    def _say(self, why: str) -> None:
        if why != self._told:
            self._told = why
            log.warning("%s", why)
