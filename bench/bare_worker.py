"""A worker for the bare workflow, set up exactly as `perdure.worker` sets up its own."""

import argparse
import asyncio
import signal
from datetime import timedelta

from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.bare import BareWorkflow, nothing
from perdure.engine.connect import connect
from perdure.engine.settings import Settings


async def serve(task_queue: str) -> None:
    """Serve until SIGTERM."""
    stopped, settings = asyncio.Event(), Settings()
    throttle = timedelta(seconds=settings.heartbeat_s)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker(
        await connect(),
        task_queue=task_queue,
        workflows=[BareWorkflow],
        activities=[nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace_s),
    )
    async with worker:
        await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task_queue")
    asyncio.run(serve(parser.parse_args().task_queue))
