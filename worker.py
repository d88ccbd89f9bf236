"""The worker: wiring only. Agents become activities, activities and workflows a `Worker`.

`python worker.py`, `python -m perdure.worker` and `perdure worker` are the same thing.
"""

import argparse
import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker

from perdure.activities.cancel import request_cancel
from perdure.activities.catalogue import CatalogueActivities
from perdure.activities.chat_client import ChatClient
from perdure.activities.logged import Logged
from perdure.activities.model import ModelActivities, Models
from perdure.activities.pace import Pace
from perdure.activities.pricing import Prices
from perdure.activities.publishing import Publisher
from perdure.activities.redaction import Redactor
from perdure.activities.session import SessionActivities
from perdure.activities.shown_files import ShownFiles
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings, ToolActivity, tool_activity
from perdure.activities.transcripts import Transcripts
from perdure.activities.usage import UsageActivities
from perdure.agents.registry import Registry
from perdure.agents.tool import AnyTool
from perdure.client.follow import ended
from perdure.client.listing import open_runs
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import connect
from perdure.engine.deployment import deployment, make_first_current
from perdure.engine.health import health_endpoint
from perdure.engine.process import configured, run_process, tell_parent
from perdure.engine.redis import redis_of
from perdure.engine.runner import Runner
from perdure.engine.settings import Settings
from perdure.engine.stored_text import StoredTexts
from perdure.engine.watch import Watch
from perdure.runs.errors import ConfigurationError, EngineUnavailable
from perdure.workflows.run import RunWorkflow
from perdure.workflows.session import SessionWorkflow, UpgradingSessionWorkflow

if TYPE_CHECKING:
    # Loaded where an agent has such servers: the SDK takes a second and a half to import.
    from perdure.activities.mcp.servers import McpServers

DEFAULT_MODEL = "gpt-5-mini"
"""For agents that name no model, where PERDURE_MODEL is not set either."""
HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
"""How fast a cancel comes in; the SDK's default of 30 s would delay it by as much."""
LEFT_BEHIND_S = 5.0
"""After the grace time, how long Steps may take to notice that they are cancelled."""

log = logging.getLogger("perdure.worker")


def build(
    client: Client,
    registry: Registry,
    chat: ChatClient,
    settings: Settings,
    transcripts: Transcripts | None = None,
    pace: Pace | None = None,
) -> Worker:
    """Return a worker that serves the agents of `registry`.

    Args:
        client: Connected with our data converter; it knows where large data is kept.
        registry: What the worker serves.
        chat: The model provider.
        settings: Task queue, default model, rate limits, grace time, version, Redis.
        transcripts: A cache to share or to watch; a new one by default.
        pace: When model calls go out; as the settings say by default.
    """
    recent = transcripts or Transcripts()
    pace = pace or Pace(settings.rate_limits or {})
    publisher = Publisher(redis_of(settings), client.namespace)
    tell = publisher.telling
    texts, known = StoredTexts(client.data_converter, client.namespace), settings.secret_values
    given = Surroundings(registry.agent, Threads(), chat.redact, recent, texts.keep, known, tell)
    servers = _mcp_servers(registry, lambda tool: tool_activity(tool, given))
    files, prices = ShownFiles(texts.read_bytes), Prices(settings.prices)
    models = Models(settings.model or DEFAULT_MODEL, prices, pace, files, tell)
    model = ModelActivities(registry, chat, models, recent, servers)
    tools = [tool_activity(tool, given) for tool in registry.tools().values()]
    versioned = deployment(settings)
    sessions = SessionActivities(partial(ended, client), partial(open_runs, client))
    usage = UsageActivities(partial(ended, client))
    catalogue = CatalogueActivities(registry, settings.model or DEFAULT_MODEL)
    registry.check()
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[RunWorkflow, UpgradingSessionWorkflow if versioned else SessionWorkflow],
        activities=[
            model.call_model,
            request_cancel,
            sessions.run_outcome,
            sessions.open_runs,
            usage.run_usage,
            catalogue.list_agents,
            *tools,
            *([servers.call_tool] if servers else []),
        ],
        plugins=[
            SimplePlugin("perdure.deltas", run_context=publisher.serving),
            *([SimplePlugin("perdure.mcp", run_context=servers.serving)] if servers else []),
        ],
        interceptors=[Logged()],
        # No workflow code but ours runs here; imports and lint keep it deterministic, and the
        # sandbox would take a third of the CPU of a short Run (ARCHITECTURE.md).
        workflow_runner=Runner(),
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        graceful_shutdown_timeout=timedelta(seconds=settings.grace_s),
        deployment_config=versioned,
        # Process ids come again, in containers at once: what polls is to be told apart.
        identity=f"{client.identity}-{secrets.token_hex(3)}",
    )


def _mcp_servers(
    registry: Registry, executed: Callable[[AnyTool], ToolActivity]
) -> "McpServers | None":
    if not registry.mcp_servers():
        return None
    from perdure.activities.mcp.servers import McpServers

    return McpServers(registry, executed)


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
    return ChatClient(
        key.get_secret_value() if key else "none",
        settings.openai_base_url,
        settings.secret_values.values(),
    )


async def serve(settings: Settings, stopped: asyncio.Event, ready: Callable[[], object]) -> None:
    """Serve until `stopped` is set, then let running activities end.

    Steps that do not end within the grace time are cancelled and handed over: what may be
    repeated is tried again elsewhere, of the rest the model is told that its outcome is unknown.

    Args:
        settings: What to serve, and where.
        stopped: Set it to stop.
        ready: Called once Temporal has seen the worker poll.

    Raises:
        PerdureError: When the worker can't start, or can't go on.
    """
    registry = Registry.load(settings.agents)
    chat = chat_client(settings)
    client = await connect(settings)
    await register_search_attributes(client)
    worker = build(client, registry, chat, settings)
    identity = worker.config()["identity"] or ""
    watch = Watch(client, settings.task_queue, identity, settings.give_up_s)
    with _health(settings, watch):
        working = asyncio.create_task(worker.run())
        watching = asyncio.create_task(watch.run())
        stopping = asyncio.create_task(stopped.wait())
        opening = asyncio.create_task(_opened(client, registry, settings, watch, ready))
        await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        watch.drain()
        log.info("Stopping; running Steps get %g s.", settings.grace_s)
        await _drained(worker, working, settings.grace_s)
    await chat.close()
    if working.done() and working.exception():
        raise EngineUnavailable(f"The worker failed: {working.exception()}") from None
    if watching.done():
        watching.result()


async def _opened(
    client: Client,
    registry: Registry,
    settings: Settings,
    watch: Watch,
    ready: Callable[[], object],
) -> None:
    await watch.polling.wait()
    if settings.build_id and not await make_first_current(client, settings):
        log.warning(
            "No version is current, so no new Run starts. Choose one: temporal worker deployment "
            "set-current-version --deployment-name %s --build-id %s",
            settings.deployment_name,
            settings.build_id,
        )
    log.info("Worker ready: task queue %r, agents %s.", settings.task_queue, registry.names())
    ready()


async def _drained(worker: Worker, working: "asyncio.Task[None]", grace_s: float) -> None:
    """Stop polling and wait for what runs, but not for ever: a tool may ignore that it is told."""
    closing = asyncio.create_task(worker.shutdown())
    done, _ = await asyncio.wait({working}, timeout=grace_s + LEFT_BEHIND_S)
    if not done:
        log.warning("Some Steps would not end and are left behind; Temporal finds out in 10 s.")
        closing.cancel()


@contextmanager
def _health(settings: Settings, watch: Watch) -> Iterator[None]:
    if settings.health_port is None:
        yield
        return
    host, port = settings.health_host, settings.health_port
    with health_endpoint(host, port, lambda: watch.problem) as address:
        log.info("Health: %s/readyz", address)
        yield


def main() -> None:
    """Run a worker until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="perdure worker", description="Serve agents.")
    parser.add_argument("--agents", action="append", help="module or file; may be repeated")
    parser.add_argument("--health-port", type=int, help="serve /healthz and /readyz there")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = configured(Redactor)
    if options.agents:
        settings.agents = options.agents
    if options.health_port is not None:
        settings.health_port = options.health_port
    ready = partial(tell_parent, "ready") if options.child else bool
    serving = partial(serve, settings, ready=ready)
    asyncio.run(run_process(serving, child=options.child))


if __name__ == "__main__":
    main()
