"""Whether a worker works: Temporal can be reached, and knows of all the worker's polls.

What the worker thinks of itself proves nothing: a proxy may answer for Temporal, or swallow
polls. So the server is asked when it last saw this very worker poll.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.engine.roles import KINDS, Duty
from perdure.runs.errors import EngineUnavailable

LOOK_EVERY_S = 2.0
FIRST_LOOKS_EVERY_S = 0.1
"""Until the first poll is seen."""
ANSWER_WITHIN = timedelta(seconds=5)
POLLS_LAST_S = 57.5
"""A poll that finds nothing is repeated after 48 to 60 s (measured, server 1.32), and five or more
go on at once; red within a minute of the last one needs a little less than that minute."""
NOT_ALLOWED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED)
"""Temporal answers, but does not say who polls."""

Poll = tuple[str, TaskQueueType.ValueType]
"""A task queue, and what it is polled for."""


class Watch:
    """Looks at one worker from Temporal's side.

    Args:
        client: Connected.
        duties: What the worker polls.
        identity: Under which it polls; no other process has it.
        give_up_s: How long nothing may work.
        may_be_full: Tells whether the worker may have no room for another Step: then it polls for
            none, and that Temporal answers is all there is to see.
    """

    def __init__(
        self,
        client: Client,
        duties: Sequence[Duty],
        identity: str,
        give_up_s: float,
        may_be_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self.polling = asyncio.Event()
        """Set once Temporal has seen every poll."""
        self._client = client
        self._polls = [(duty.task_queue, kind) for duty in duties for kind in duty.polls]
        self._identity = identity
        self._give_up_s = give_up_s
        self._may_be_full = may_be_full
        self._problem: str | None = "It has not polled yet."
        self._draining = False
        self._last_poll = 0
        self._seen_at = 0.0

    @property
    def problem(self) -> str | None:
        """Why the worker does not work; none when it does. Any thread may read it."""
        return "It is being stopped." if self._draining else self._problem

    def drain(self) -> None:
        """Note that the worker takes no more work."""
        self._draining = True

    async def run(self) -> None:
        """Look on and on.

        Raises:
            EngineUnavailable: When nothing worked for `give_up_s`.
        """
        well_at = _now()
        while True:
            self._problem = await self._look()
            if self._problem is None:
                well_at = _now()
                self.polling.set()
            elif _now() - well_at > self._give_up_s:
                raise EngineUnavailable(
                    f"The worker did not work for {self._give_up_s:g} s: {self._problem}",
                    hint="Start it again once Temporal is reachable.",
                )
            await asyncio.sleep(LOOK_EVERY_S if self.polling.is_set() else FIRST_LOOKS_EVERY_S)

    async def _look(self) -> str | None:
        try:
            seen = {poll: await self._last_poll_of(poll) for poll in self._polls}
        except RPCError as exc:
            if exc.status in NOT_ALLOWED:
                return None
            return f"Temporal does not answer ({exc.status.name.lower()})."
        # Two clocks: only that the server's goes on is read from it.
        if max(seen.values()) > self._last_poll:
            self._last_poll, self._seen_at = max(seen.values()), _now()
        if self._may_be_full():
            return None
        for (task_queue, kind), at in seen.items():
            if not at:
                return f"Temporal has not seen it poll {task_queue!r} for {KINDS[kind]}."
        age_s = _now() - self._seen_at
        return (
            None if age_s <= POLLS_LAST_S else f"Temporal has not seen it poll for {age_s:.0f} s."
        )

    async def _last_poll_of(self, poll: Poll) -> int:
        """Return when the server last saw such a poll of ours, on its own clock; 0 for never."""
        task_queue, kind = poll
        request = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=kind,
        )
        response = await self._client.workflow_service.describe_task_queue(
            request, timeout=ANSWER_WITHIN
        )
        ours = [poller for poller in response.pollers if poller.identity == self._identity]
        return max((poller.last_access_time.ToNanoseconds() for poller in ours), default=0)


def _now() -> float:
    return asyncio.get_running_loop().time()
