"""The commands that run things on this machine: `dev`, `demo`, `worker`, `serve`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from rich.text import Text

from perdure.client.cli.following import show_live
from perdure.client.cli.render import run_view
from perdure.client.cli.session import err, exit_of, out
from perdure.client.manager import RunManager
from perdure.client.ui import run_url
from perdure.engine.settings import EXAMPLE_AGENTS, Settings
from perdure.engine.stack import Stack, serves_http, stack
from perdure.runs.errors import ConfigurationError, EngineUnavailable

QUESTION = "What is 37 * 43 + 12?"
"""Asked by the demo: it needs a tool, so that there is something to see."""


def with_agents(settings: Settings, agents: list[str] | None) -> Settings:
    """Return the settings with the agents that the command line names, if it names any."""
    return settings.model_copy(update={"agents": agents}) if agents else settings


def _first_try(settings: Settings) -> str:
    """Return a command that will do something, whichever agents there are."""
    if settings.agents == [EXAMPLE_AGENTS]:
        return 'perdure start "What is 37 * 43 + 12?" --follow'
    return 'perdure start "…" --agent NAME --follow'


async def dev(settings: Settings) -> int:
    """Run everything until Ctrl-C or SIGTERM."""
    stopped = _stop_signal()
    async with stack(settings, say, http=True) as parts:
        manager = await RunManager.connect(settings)
        say(f"Temporal UI: {run_url(settings, manager.client.namespace, None)}")
        say(f"Ready. Try: {_first_try(settings)}")
        await _until_one_ends(parts, stopped)
        say("Stopping … (once more does not wait for running Steps)")
        _on_signal(lambda: _kill(parts.worker))
    return 0


async def _until_one_ends(parts: Stack, stopped: asyncio.Event) -> None:
    """Wait until it is to stop.

    Raises:
        EngineUnavailable: When a part ends by itself.
    """
    waiting: dict[asyncio.Future[int], str] = {asyncio.ensure_future(stopped.wait()): ""}
    waiting[asyncio.ensure_future(parts.worker.wait())] = "worker"
    if parts.gateway is not None:
        waiting[asyncio.ensure_future(parts.gateway.wait())] = "gateway"
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if not stopped.is_set():
        ended = done.pop()
        raise EngineUnavailable(
            f"The {waiting[ended]} ended by itself (exit code {ended.result()}).",
            hint="Runs are safe; start `perdure dev` again.",
        )


async def demo(settings: Settings, question: str, *, keep: bool) -> int:
    """Execute one Run with a real model and show what it did."""
    stopped = _stop_signal()
    async with stack(settings, say, http=False):
        manager = await RunManager.connect(settings)
        run_id = await manager.start_run("assistant", question)
        say(f"Run: {run_id}  “{question}”")
        if err.is_terminal:
            await show_live(manager, run_id, as_json=False)
            run = await manager.get_run(run_id)
        else:
            run = await manager.wait(run_id)
            out.print(run_view(run))
        say(f"Temporal UI: {run_url(settings, manager.client.namespace, run_id)}")
        if keep:
            say("Everything stays up; Ctrl-C stops it.")
            await stopped.wait()
        else:
            say("The UI is up while `perdure dev` runs; the Run is kept.")
    return exit_of(run)


def worker(settings: Settings, options: Mapping[str, object]) -> None:
    """Become a worker: this process is replaced, so that signals reach the worker itself.

    Args:
        settings: Which agents it has.
        options: Others that the command line gives, by name; none that are None.
    """
    command = [sys.executable, "-m", "perdure.worker"]
    for source in settings.agents:
        command += ["--agents", source]
    for name, value in options.items():
        if value is not None:
            command += [name, str(value)]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


def serve(host: str | None, port: int | None) -> NoReturn:
    """Become a gateway, as `worker` becomes a worker.

    Raises:
        ConfigurationError: When what it needs is not installed.
    """
    if not serves_http():
        raise ConfigurationError(
            "HTTP can't be served here: FastAPI and uvicorn are not installed.",
            hint="`pip install 'perdure[gateway]'` adds them.",
        )
    command = [sys.executable, "-m", "perdure.gateway"]
    for option, value in (("--host", host), ("--port", port)):
        if value is not None:
            command += [option, str(value)]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


def say(line: str) -> None:
    """Tell people what is going on."""
    err.print(Text(line, style="dim"))


def _stop_signal() -> asyncio.Event:
    stopped = asyncio.Event()
    _on_signal(stopped.set)
    return stopped


def _on_signal(act: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for sent in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sent, act)


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
