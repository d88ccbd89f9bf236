"""All checks, at once, each for a few seconds at most."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.configuration import warnings
from perdure.client.doctor import provider, surroundings, temporal, workers
from perdure.client.doctor.finding import Check, Finding, fail, failed, ok, unknown, warn
from perdure.engine.config_file import config_file
from perdure.engine.connect import Address, connect
from perdure.engine.destination import Destination
from perdure.engine.settings import Settings
from perdure.engine.settings_sources import Origins
from perdure.runs.errors import PerdureError

LIMIT_S = 15.0
"""For one check, should its own limits fail: connecting may take 10 s, each call 4 s."""

Look = Callable[[Client], Awaitable[list[Finding]]]


async def diagnose(queues: tuple[str, ...] = ()) -> AsyncIterator[tuple[int, list[Finding]]]:
    """Yield the place of each check, and what it found, as they end.

    Args:
        queues: More task queues that are to have workers.
    """
    checks = _checks(queues)
    running = [asyncio.create_task(_limited(*each)) for each in enumerate(checks)]
    for each in asyncio.as_completed(running):
        yield await each


def _checks(queues: tuple[str, ...]) -> list[tuple[str, Check]]:
    """Return the checks, by what they are of."""
    try:
        settings = Settings.configured()
        destination = Destination.configured()
        found = _configuration()
    except PerdureError as exc:
        # Nothing else could be looked at in the right place.
        return [("configuration", partial(_told, failed("configuration", exc)))]
    temporal_of = _Temporal(settings)
    tool_queues = [*queues, *([settings.tool_queue] if settings.tool_queue else [])]
    local = Address(destination.host, destination.port).is_local
    looks: list[tuple[str, Look]] = [
        ("server", partial(temporal.server, destination)),
        ("namespace", temporal.namespace),
        ("workers", partial(workers.workers, settings.task_queue)),
        *(("tool queue", partial(workers.tool_queue, each)) for each in dict.fromkeys(tool_queues)),
    ]
    return [
        ("configuration", partial(_told, *found)),
        *((name, partial(temporal_of.look, name, look)) for name, look in looks),
        ("dynamic config", partial(temporal.dynamic_config, settings, destination)),
        ("provider", partial(provider.providers, settings)),
        ("disk", partial(surroundings.disk, settings, local=local)),
        ("gateway keys", partial(surroundings.gateway_keys, settings)),
        ("redis", partial(surroundings.redis, settings)),
        ("traces", surroundings.collector),
    ]


class _Temporal:
    """Looks at Temporal, over one connection."""

    def __init__(self, settings: Settings) -> None:
        self._connection = asyncio.create_task(connect(settings))

    async def look(self, check: str, look: Look) -> list[Finding]:
        """Return what a look finds; only the server's own check says why there is no connection."""
        try:
            client = await asyncio.shield(self._connection)
        except PerdureError as exc:
            if check == "server":
                return [failed(check, exc)]
            return [unknown(check, "Not looked at: Temporal can't be reached.")]
        try:
            return await look(client)
        except RPCError as exc:
            return [_refused(check, exc.status)]


def _refused(check: str, status: RPCStatusCode) -> Finding:
    if status is RPCStatusCode.NOT_FOUND:
        return unknown(check, "Not looked at: there is no such namespace.")
    if status in temporal.NOT_ALLOWED:
        return unknown(check, "The Temporal server does not let us look.")
    told = status.name.lower().replace("_", " ")
    return fail(check, f"The Temporal server does not answer ({told}).", "Look at its log.")


async def _limited(place: int, named: tuple[str, Check]) -> tuple[int, list[Finding]]:
    name, check = named
    task = asyncio.ensure_future(check())
    # Not by a timeout of asyncio's: the SDK takes its cancel for an error of the connection.
    done, _ = await asyncio.wait([task], timeout=LIMIT_S)
    if done:
        return place, task.result()
    task.cancel()
    return place, [fail(name, f"It took more than {LIMIT_S:g} s to look.", "Try again.")]


async def _told(*findings: Finding) -> list[Finding]:
    return list(findings)


def _configuration() -> list[Finding]:
    told = warnings(Origins(Settings))
    if told:
        hint = "Mend the name, or take it out; `perdure config show` shows what is set."
        return [warn("configuration", each, hint) for each in told]
    file = config_file()
    read = f", with {file}" if file else ""
    return [ok("configuration", f"All settings can be used{read}.")]
