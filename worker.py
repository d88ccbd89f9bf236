"""The worker: wiring only. Agents become activities, activities and workflows a `Fleet`.

Its role says what it polls (`engine/roles.py`); each task queue has a `Worker` of its own.
`python worker.py`, `python -m perdure.worker` and `perdure worker` are the same thing.
"""

import argparse
import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import PollerBehaviorSimpleMaximum, Worker

from perdure.activities.agent_activities import Activity, AgentActivities
from perdure.activities.cancel import request_cancel
from perdure.activities.endpoints import Endpoints
from perdure.activities.logged import Logged
from perdure.activities.model import Models
from perdure.activities.pace import Pace
from perdure.activities.pricing import Prices
from perdure.activities.publishing import Publisher
from perdure.activities.redaction import Redactor
from perdure.activities.session import SessionActivities
from perdure.activities.shown_files import ShownFiles
from perdure.activities.threads import Threads
from perdure.activities.tool import Surroundings
from perdure.activities.tracing import Spans
from perdure.activities.transcripts import Transcripts
from perdure.activities.usage import UsageActivities
from perdure.agents.registry import Registry
from perdure.client.follow import ended
from perdure.client.listing import open_runs
from perdure.engine.attributes import register_search_attributes
from perdure.engine.connect import connect
from perdure.engine.deployment import deployment, make_first_current
from perdure.engine.fleet import Fleet, Load, tuner
from perdure.engine.health import health_endpoint
from perdure.engine.models import model_table
from perdure.engine.process import configured, run_process, tell_parent
from perdure.engine.redis import redis_of
from perdure.engine.roles import ROLES, Duty, calls_models, duties, runs_agents
from perdure.engine.runner import Runner
from perdure.engine.runtime import start_runtime
from perdure.engine.settings import Settings
from perdure.engine.stored_text import StoredTexts
from perdure.engine.tracing import is_traced, shows_content, tracing
from perdure.engine.watch import Watch
from perdure.runs.errors import ConfigurationError, EngineUnavailable
from perdure.workflows.run import RunWorkflow
from perdure.workflows.session import SessionWorkflow, UpgradingSessionWorkflow

DEFAULT_MODEL = "gpt-5-mini"
"""For agents that name no model, where PERDURE_MODEL is not set either."""
LEFT_BEHIND_S = 5.0
"""After the grace time, how long Steps may take to notice that they are cancelled."""
WORKFLOWS_ONLY = {
    "no_remote_activities": True,
    "workflow_task_poller_behavior": PollerBehaviorSimpleMaximum(10),
    "nonsticky_to_sticky_poll_ratio": 0.5,
}
"""The SDK has one poll for Runs that a worker does not know yet; nothing else of such a worker
shows Temporal that it lives, and a single poll may last longer than `Watch` waits."""

log = logging.getLogger("perdure.worker")


def build(
    client: Client,
    registry: Registry,
    endpoints: Endpoints | None,
    settings: Settings,
    transcripts: Transcripts | None = None,
    pace: Pace | None = None,
) -> Fleet:
    """Return a worker that does what its role says for the agents of `registry`.

    Args:
        client: Connected with our data converter; it knows where large data is kept.
        registry: What the worker serves; nothing of it is needed for workflows.
        endpoints: The models, and their providers; none for roles that call no models.
        settings: Role, task queue, default model, rate limits, grace time, version, Redis.
        transcripts: A cache to share or to watch; a new one by default.
        pace: When model calls go out; as the settings say by default.

    Raises:
        ConfigurationError: When agents, models and role do not fit together.
    """
    registry.check()
    recent = transcripts or Transcripts()
    publisher = Publisher(redis_of(settings), client.namespace)
    tell = publisher.telling
    texts, known = StoredTexts(client.data_converter, client.namespace), settings.secret_values
    redact = endpoints.redact if endpoints is not None else Redactor(known.values())
    spans = _spans(redact) if is_traced(client) else Spans()
    threads = Threads()
    given = Surroundings(registry.agent, threads, redact, recent, texts.keep, known, tell, spans)
    agents = AgentActivities(registry, given)
    sessions = SessionActivities(partial(ended, client), partial(open_runs, client))
    usage = UsageActivities(partial(ended, client))
    calling: list[Activity] = []
    default, prices = settings.model or DEFAULT_MODEL, Prices(settings.prices)
    if endpoints is not None:
        endpoints.check(registry, default)
        pace = pace or Pace(endpoints.rate_limits)
        models = Models(default, prices, pace, ShownFiles(texts.read_bytes), tell, spans)
        calling = agents.models(endpoints, models)

    def activities(duty: Duty) -> list[Activity]:
        found: list[Activity] = []
        if duty.workflows:
            found += [request_cancel, sessions.run_outcome, sessions.open_runs, usage.run_usage]
        if duty.models:
            found += [*calling, sessions.run_outcome]
        if duty.tools:
            found += agents.tools(duty.task_queue, settings.task_queue)
        return list(dict.fromkeys(found))

    # Process ids come again, in containers at once: what polls is to be told apart.
    identity = f"{client.identity}-{secrets.token_hex(3)}"
    fleet = Fleet(identity, [publisher.serving, *agents.contexts])
    for duty in duties(settings, registry.task_queues()):
        load = Load(settings)
        options = _options(duty, settings) | {
            "interceptors": [Logged(), load],
            "identity": identity,
        }
        fleet.add(Worker(client, activities=activities(duty), **options), duty, load)
    return fleet


def _options(duty: Duty, settings: Settings) -> dict[str, Any]:
    versioned = deployment(settings)
    sessions = UpgradingSessionWorkflow if versioned else SessionWorkflow
    options = {
        "task_queue": duty.task_queue,
        "workflows": [RunWorkflow, sessions] if duty.workflows else [],
        # No workflow code but ours runs here; imports and lint keep it deterministic, and the
        # sandbox would take a third of the CPU of a short Run (ARCHITECTURE.md).
        "workflow_runner": Runner(),
        "tuner": tuner(settings),
        # How fast a cancel comes in; the SDK's default of 30 s would delay it by as much.
        "max_heartbeat_throttle_interval": timedelta(seconds=settings.heartbeat_s),
        "default_heartbeat_throttle_interval": timedelta(seconds=settings.heartbeat_s),
        "graceful_shutdown_timeout": timedelta(seconds=settings.grace_s),
        "deployment_config": versioned,
    }
    return options if duty.executes else options | WORKFLOWS_ONLY


def _spans(redact: Redactor) -> Spans:
    from perdure.activities.spans import OtelSpans

    return OtelSpans(redact, content=shows_content(os.environ))


def endpoints_of(settings: Settings) -> Endpoints:
    """Return the models of the configured providers.

    Raises:
        ConfigurationError: When there is no provider, or what is configured can't work.
    """
    table = model_table(settings)
    if not table.providers:
        raise ConfigurationError(
            "The worker has no model provider.",
            hint="Set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server, or name providers in "
            "perdure.toml; `perdure dev` can serve a small model itself.",
        )
    secrets = settings.secret_values.values()
    return Endpoints(table, settings.prices, settings.rate_limits, secrets)


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
    start_runtime(settings.metrics_host, settings.metrics_port, "PERDURE_METRICS_PORT")
    with tracing() as traced:
        await _serve(settings, stopped, ready, traced.plugins if traced is not None else ())


async def _serve(
    settings: Settings,
    stopped: asyncio.Event,
    ready: Callable[[], object],
    plugins: Sequence[SimplePlugin],
) -> None:
    registry = Registry.load(settings.agents if runs_agents(settings) else [])
    endpoints = endpoints_of(settings) if calls_models(settings) else None
    client = await connect(settings, plugins=plugins)
    await register_search_attributes(client)
    worker = build(client, registry, endpoints, settings)
    give_up_s = settings.give_up_s
    watch = Watch(client, worker.duties, worker.identity, give_up_s, worker.may_be_full)
    with _health(settings, watch):
        working = asyncio.create_task(worker.run())
        watching = asyncio.create_task(watch.run())
        stopping = asyncio.create_task(stopped.wait())
        opening = asyncio.create_task(_opened(client, worker, settings, watch, ready))
        await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        watch.drain()
        log.info("Stopping; running Steps get %g s.", settings.grace_s)
        await _drained(worker, working, settings.grace_s)
    if endpoints is not None:
        await endpoints.close()
    if working.done() and working.exception():
        raise EngineUnavailable(f"The worker failed: {working.exception()}") from None
    if watching.done():
        watching.result()


async def _opened(
    client: Client,
    worker: Fleet,
    settings: Settings,
    watch: Watch,
    ready: Callable[[], object],
) -> None:
    await watch.polling.wait()
    if any(duty.workflows for duty in worker.duties) and settings.build_id:
        await _version_opened(client, settings)
    log.info("Worker ready: %s.", "; ".join(map(str, worker.duties)))
    ready()


async def _version_opened(client: Client, settings: Settings) -> None:
    if not await make_first_current(client, settings):
        log.warning(
            "No version is current, so no new Run starts. Choose one: temporal worker deployment "
            "set-current-version --deployment-name %s --build-id %s",
            settings.deployment_name,
            settings.build_id,
        )


async def _drained(worker: Fleet, working: "asyncio.Task[None]", grace_s: float) -> None:
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
    parser.add_argument("--metrics-port", type=int, help="serve /metrics for Prometheus there")
    parser.add_argument("--role", choices=ROLES, help="what it does; everything by default")
    parser.add_argument("--tool-queue", help="execute the tools of this task queue, nothing else")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = {
        "agents": options.agents,
        "health_port": options.health_port,
        "metrics_port": options.metrics_port,
        "worker_role": options.role,
        "tool_queue": options.tool_queue,
    }
    update = {name: value for name, value in given.items() if value is not None}
    settings = configured(Redactor).model_copy(update=update)
    ready = partial(tell_parent, "ready") if options.child else bool
    serving = partial(serve, settings, ready=ready)
    asyncio.run(run_process(serving, child=options.child))


if __name__ == "__main__":
    main()
