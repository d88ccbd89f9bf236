"""Everything that is measured, started and stopped: server, model and two workers.

Each is a process of its own, as in production. The two workers have the same settings and
differ only in what they serve.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowHandle

from bench.bare import BareWorkflow, activities_of
from bench.model import prompt
from perdure.client.manager import RunManager
from perdure.client.workers import absence
from perdure.engine.connect import Address, connect
from perdure.engine.dev_server import UI_PORT_OFFSET, DevServer
from perdure.runs.limits import Limits

ROOT = Path(__file__).parent.parent
AGENTS = str(ROOT / "bench" / "agents.py")
RUNS, BARE = "bench-runs", "bench-bare"
"""Task queues."""
READY_WITHIN_S = 60.0
"""For a worker to import everything and poll, on a busy machine."""
NO_LIMITS = Limits(max_turns=1000)
"""The longest Run measured has more turns than the default limit allows."""

Child = asyncio.subprocess.Process


@dataclass(frozen=True)
class Stage:
    """What the measurements are made with."""

    client: Client
    manager: RunManager
    runs_worker: int
    """Process id of the worker that serves Runs."""
    bare_worker: int
    """Process id of the worker that serves the bare workflow."""
    server: int
    """Process id of the Temporal server."""
    database: Path
    """Of the server: a file of SQLite."""
    model: int
    """Process id of the model server."""
    model_url: str
    folder: Path
    """For logs; temporary."""

    async def run(self, turns: int) -> str:
        """Execute a Run of `turns` turns as users do, and return its id."""
        run_id = await self.manager.start_run("echo", prompt(turns), limits=NO_LIMITS)
        await self.client.get_workflow_handle(run_id).result()
        return run_id

    async def bare(self, turns: int) -> None:
        """Execute a bare workflow with as many activities as such a Run."""
        handle: WorkflowHandle[BareWorkflow, None] = await self.client.start_workflow(
            BareWorkflow.run,
            activities_of(turns),
            id=f"bare_{secrets.token_hex(10)}",
            task_queue=BARE,
        )
        await handle.result()


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Start everything in a temporary folder, and stop it again."""
    for name in list(os.environ):
        # Nobody's keys and profiles decide what is measured.
        if name.startswith(("TEMPORAL_", "PERDURE_", "OPENAI_", "OTEL_")):
            del os.environ[name]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        address = Address("127.0.0.1", free_port())
        os.environ |= {
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "TEMPORAL_ADDRESS": str(address),
            "PERDURE_TASK_QUEUE": RUNS,
            "PERDURE_STORAGE_DIR": str(folder / "storage"),
            "OPENAI_API_KEY": "no-key",
            "PYTHONPATH": str(ROOT),
            # The sandbox loads workflow code for each workflow: compiled, as where it is installed.
            "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
        }
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        server = DevServer(address, folder)
        await server.start()
        stack.push_async_callback(server.stop)
        model = await _child(stack, folder, "model", "-m", "bench.model")
        os.environ["OPENAI_BASE_URL"] = await _address_of(model)
        runs = await _child(stack, folder, "runs", "-m", "perdure.worker", "--agents", AGENTS)
        bare = await _child(stack, folder, "bare", "-m", "bench.bare_worker", BARE)
        client = await connect()
        await _until_polling(client, RUNS, folder / "runs.log")
        await _until_polling(client, BARE, folder / "bare.log")
        yield Stage(
            client=client,
            manager=RunManager(client, RUNS),
            runs_worker=runs.pid,
            bare_worker=bare.pid,
            server=int((folder / "temporal.pid").read_text()),
            database=server.database,
            model=model.pid,
            model_url=os.environ["OPENAI_BASE_URL"],
            folder=folder,
        )


@asynccontextmanager
async def worker(
    stage: Stage,
    task_queue: str,
    model_url: str,
    agents: str = AGENTS,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Child]:
    """Run one more worker of Runs, and yield it when it polls; what is left of it is killed."""
    with (stage.folder / f"{task_queue}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure.worker", "--agents", agents, "--child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=stage.folder,
            env=os.environ
            | {"PERDURE_TASK_QUEUE": task_queue, "OPENAI_BASE_URL": model_url}
            | dict(env or {}),
            start_new_session=True,
        )
    try:
        if process.stdout is None or not await process.stdout.readline():
            raise RuntimeError(f"no worker for {task_queue!r}; its log is in {stage.folder}")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _child(stack: AsyncExitStack, folder: Path, name: str, *arguments: str) -> Child:
    with (folder / f"{name}.log").open("wb") as log:
        # In the temporary folder: a .env file of the checkout is not for us.
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    stack.push_async_callback(_stop, child)
    return child


async def _stop(child: Child) -> None:
    if child.returncode is None:
        child.terminate()
    await child.wait()


async def _address_of(model: Child) -> str:
    if model.stdout is None:
        raise RuntimeError("the model server was started without a pipe")
    async with asyncio.timeout(READY_WITHIN_S):
        return str(json.loads(await model.stdout.readline())["base_url"])


async def _until_polling(client: Client, task_queue: str, log: Path) -> None:
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            while await absence(client, task_queue):  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.1)
    except TimeoutError:
        said = await asyncio.to_thread(log.read_text)
        raise RuntimeError(f"no worker polls {task_queue!r}; it said: {said}") from None


def free_port() -> int:
    """Return a port that is free now, and whose UI port is as well."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + UI_PORT_OFFSET))
            except (OSError, OverflowError):
                continue
            return port
