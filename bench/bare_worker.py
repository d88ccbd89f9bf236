"""A worker for the bare workflow, set up exactly as `perdure.worker` sets up its own."""

import argparse
import asyncio
import signal
from datetime import timedelta

from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.bare import BareWorkflow, nothing
from perdure.engine.connect import connect
from perdure.engine.settings import Settings
from perdure.worker import HEARTBEAT_THROTTLE


async def serve(task_queue: str) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    worker = Worker(
        await connect(),
        task_queue=task_queue,
        workflows=[BareWorkflow],
        activities=[nothing],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=Settings().grace_s),
    )
    async with worker:
        await stopped.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task_queue")
    asyncio.run(serve(parser.parse_args().task_queue))
