"""What activities measure. Outside of an activity, nothing may be measured with these."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.openai_chat import Answer
from perdure.runs import metrics
from perdure.runs.codes import ErrorCode
from perdure.runs.measures import GEN_AI
from perdure.runs.metering import Instruments, Metric
from perdure.runs.steps import ToolReply

P = TypeVar("P")
R = TypeVar("R")


def record(metric: Metric, value: float, **labels: str) -> None:
    """Record one sample."""
    Instruments(activity.metric_meter()).record(metric, value, **labels)


@contextmanager
def timed_request(agent: str, model: str, answer: Answer) -> Iterator[None]:
    """Measure one request to the provider, which the block sends and whose answer it reads."""
    labels = GEN_AI | {"gen_ai_agent_name": agent, "gen_ai_request_model": model}
    began = time.monotonic()
    with _timed(metrics.OPERATION, labels):
        try:
            yield
        finally:
            if answer.first_at is not None:
                record(metrics.FIRST_CHUNK, answer.first_at - began, **labels)


async def timed_tool(name: str, executed: Awaitable[ToolReply]) -> ToolReply:
    """Measure one attempt of a tool call."""
    labels = {"tool": name}
    with _timed(metrics.TOOL_DURATION, labels):
        reply = await executed
        if reply.error is not None:
            labels["error_type"] = reply.error.code.value
        return reply


class Reading(Generic[P, R]):
    """Reads something page by page, and knows whether it had to.

    Args:
        read: Reads one page.
    """

    def __init__(self, read: Callable[[P], Awaitable[R]]) -> None:
        self._read = read
        self.has_read = False

    async def __call__(self, request: P) -> R:
        """Read one page."""
        self.has_read = True
        return await self._read(request)


@contextmanager
def _timed(metric: Metric, labels: dict[str, str]) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    except asyncio.CancelledError:
        labels["error_type"] = ErrorCode.CANCELLED
        raise
    except ApplicationError as exc:
        labels["error_type"] = exc.type or ErrorCode.INTERNAL
        raise
    finally:
        record(metric, time.monotonic() - began, **labels)
