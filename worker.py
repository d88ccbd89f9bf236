"""The worker: wiring only. Agents become activities, activities and workflows a `Worker`.

`python worker.py`, `python -m perdure.worker` and `perdure worker` are the same thing.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.activities.cancel import request_cancel
from perdure.activities.chat_client import ChatClient
from perdure.activities.model import ModelActivities
from perdure.activities.pricing import Prices
from perdure.activities.tool import tool_activity
from perdure.activities.transcripts import Transcripts
from perdure.agents.registry import Registry
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import connect, leave
from perdure.engine.settings import Settings
from perdure.engine.stored_text import StoredTexts
from perdure.runs.errors import ConfigurationError, PerdureError
from perdure.workflows.run import RunWorkflow

DEFAULT_MODEL = "gpt-5-mini"
"""For agents that name no model, where PERDURE_MODEL is not set either."""
HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
"""How fast a cancel comes in; the SDK's default of 30 s would delay it by as much."""
GRACE = timedelta(seconds=10)
"""What running activities get to end in when the worker is asked to stop."""
CAN_NOT_START = 6
"""Exit code, the one that the command line has for it."""
TOOL_THREADS = 64
"""Sync tools that run at once in one worker."""


def build(
    client: Client,
    registry: Registry,
    chat: ChatClient,
    settings: Settings,
    transcripts: Transcripts | None = None,
) -> Worker:
    """Return a worker that serves the agents of `registry`.

    Args:
        client: Connected with our data converter; it knows where large data is kept.
        registry: What the worker serves.
        chat: The model provider.
        settings: Task queue and default model.
        transcripts: A cache to share or to watch; a new one by default.
    """
    remembered = transcripts or Transcripts()
    model = ModelActivities(
        registry, chat, settings.model or DEFAULT_MODEL, remembered, Prices(settings.prices)
    )
    threads = ThreadPoolExecutor(TOOL_THREADS, thread_name_prefix="tool")
    texts = StoredTexts(client.data_converter, client.namespace)
    tools = [
        tool_activity(tool, threads, chat.redact, remembered, texts.keep)
        for tool in registry.tools().values()
    ]
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[RunWorkflow],
        activities=[model.call_model, request_cancel, *tools],
        # No workflow code but ours runs here; imports and lint keep it deterministic, and the
        # sandbox would take a third of the CPU of a short Run (ARCHITECTURE.md).
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=GRACE,
    )


def chat_client(settings: Settings) -> ChatClient:
    """Return the client of the configured provider.

    Raises:
        ConfigurationError: When neither a key nor an endpoint is set.
    """
    key = settings.openai_api_key
    if key is None and settings.openai_base_url is None:
        raise ConfigurationError(
            "The worker has no model provider.",
            hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server; "
            "`perdure dev` can serve a small model itself.",
        )
    # Local servers want no key, but the client insists on sending one.
    return ChatClient(key.get_secret_value() if key else "none", settings.openai_base_url)


async def serve(settings: Settings, stopped: asyncio.Event, ready: Callable[[], object]) -> None:
    """Serve until `stopped` is set, then let running activities end.

    Args:
        settings: What to serve, and where.
        stopped: Set it to stop.
        ready: Called once the worker polls.

    Raises:
        PerdureError: When the worker can't start.
    """
    registry = Registry.load(settings.agents)
    chat = chat_client(settings)
    client = await connect(settings)
    await register_search_attributes(client)
    async with build(client, registry, chat, settings):
        _say(f"Worker ready: task queue {settings.task_queue!r}, agents {registry.names()}.")
        ready()
        await stopped.wait()
    await chat.close()


async def _main(settings: Settings, child: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sent in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sent, stopped.set)
    if child:
        # Whoever started us holds the other end: when that process dies, we stop.
        loop.add_reader(sys.stdin, stopped.set)
    await serve(settings, stopped, _tell_parent if child else bool)


def _tell_parent() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main() -> None:
    """Run a worker until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="perdure worker", description="Serve agents.")
    parser.add_argument("--agents", action="append", help="module or file; may be repeated")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = Settings()
    if options.agents:
        settings.agents = options.agents
    code = 0
    try:
        asyncio.run(_main(settings, options.child))
    except PerdureError as exc:
        _say(f"Error ({exc.code}): {exc}")
        code = CAN_NOT_START
    leave(code)


if __name__ == "__main__":
    main()
