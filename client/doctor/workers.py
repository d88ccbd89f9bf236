"""Checks of the workers, and of the clock, which Temporal tells with the first of them."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import ActivityFailureError, ActivityHandle, Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.agents import TOLD_WITHIN
from perdure.client.doctor.finding import Finding, fail, failed, ok, unknown, warn
from perdure.client.workers import absence
from perdure.runs.catalogue import LIST_AGENTS, AgentList

ANSWER_WITHIN = timedelta(seconds=4)
POLLS_EVERY_S = 70.0
"""A worker's poll that finds nothing ends after a minute (see `engine/watch.py`); then it
begins another."""
SKEW_S = 2.0
"""Of two clocks, before it is told: Steps' deadlines and Runs' durations are shown by both."""
MUCH_SKEW_S = 60.0
"""Certificates, signatures of S3 and API keys go wrong by more."""
START = "Start one with `perdure worker`, or everything with `perdure dev`."


async def workers(task_queue: str, client: Client) -> list[Finding]:
    """Look who polls the task queue, whether they answer, and how their clock goes."""
    missing = await absence(client, task_queue)
    last = await _last_poll(client, task_queue)
    if missing:
        found = [failed("workers", missing)]
    else:
        found = [ok("workers", f"Workers poll the task queue {task_queue!r} for new Runs.")]
    if last is not None or not missing:
        found.append(_steps("workers", task_queue, last))
    return [*found, *await _agents_and_clock(client, task_queue, served=last is not None)]


async def tool_queue(task_queue: str, client: Client) -> list[Finding]:
    """Look who polls a task queue that tools name."""
    return [_steps("tool queue", task_queue, await _last_poll(client, task_queue))]


async def _last_poll(client: Client, task_queue: str) -> datetime | None:
    """Return when the server last saw a poll for Steps there."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    found = await client.workflow_service.describe_task_queue(request, timeout=ANSWER_WITHIN)
    times = [poller.last_access_time.ToDatetime(UTC) for poller in found.pollers]
    return max(times, default=None)


def _steps(check: str, task_queue: str, last: datetime | None) -> Finding:
    if last is None:
        return fail(check, f"No worker polls the task queue {task_queue!r} for Steps.", START)
    age_s = (datetime.now(UTC) - last).total_seconds()
    if age_s > POLLS_EVERY_S:
        return warn(
            check,
            f"Workers last polled the task queue {task_queue!r} for Steps {age_s:.0f} s ago.",
            f"They have died, or are stopped. {START}",
        )
    return ok(check, f"Workers poll the task queue {task_queue!r} for Steps.")


async def _agents_and_clock(client: Client, task_queue: str, *, served: bool) -> list[Finding]:
    before = datetime.now(UTC)
    try:
        asked: ActivityHandle[AgentList] = await client.start_activity(
            LIST_AGENTS,
            id=f"{LIST_AGENTS}-{secrets.token_hex(8)}",
            task_queue=task_queue,
            schedule_to_close_timeout=TOLD_WITHIN,
            retry_policy=RetryPolicy(maximum_attempts=1),
            result_type=AgentList,
            rpc_timeout=ANSWER_WITHIN,
        )
        after = datetime.now(UTC)
        told, agents = await asyncio.gather(_clock(asked, before, after), _agents(asked, served))
    except RPCError as exc:
        if exc.status is not RPCStatusCode.UNIMPLEMENTED:
            raise
        why = "This Temporal server has no activities outside workflows."
        return [unknown("agents", why, "Use a newer one."), unknown("clock", why)]
    return [agents, told]


async def _clock(asked: ActivityHandle[AgentList], before: datetime, after: datetime) -> Finding:
    # Of all that the API tells, this is a time of the server's own that is not old.
    described = await asked.describe(rpc_timeout=ANSWER_WITHIN)
    return clock(before, described.schedule_time, after)


def clock(before: datetime, at: datetime | None, after: datetime) -> Finding:
    """Return what is to be said of a server's time that was told between two of ours."""
    if at is None:
        return unknown("clock", "The server does not tell the time.")
    skew_s = max((before - at).total_seconds(), (at - after).total_seconds(), 0.0)
    if skew_s < SKEW_S:
        return ok("clock", "This machine's clock and the Temporal server's agree.")
    side = "ahead of" if before > at else "behind"
    told = f"This machine's clock is {skew_s:.0f} s {side} the Temporal server's."
    hint = "Let both machines set their clocks by NTP."
    return fail("clock", told, hint) if skew_s > MUCH_SKEW_S else warn("clock", told, hint)


async def _agents(asked: ActivityHandle[AgentList], served: bool) -> Finding:
    if not served:
        await asked.terminate(reason="nobody is there to answer", rpc_timeout=ANSWER_WITHIN)
        return unknown("agents", "There is no worker to ask which agents there are.", START)
    try:
        told = await asked.result()
    except ActivityFailureError:
        within_s = TOLD_WITHIN.total_seconds()
        return fail(
            "agents",
            f"No worker has said within {within_s:.0f} s which agents there are.",
            f"Those that polled lately are gone, or do nothing but wait. {START}",
        )
    names = ", ".join(agent.name for agent in told.agents)
    if not names:
        return warn("agents", "The workers serve no agents.", "Name some: PERDURE_AGENTS.")
    return ok("agents", f"A worker serves {names}.")
