"""Checks of what is around: disk, API keys of the gateway, Redis, the collector of Traces."""

import importlib.util
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from perdure.client.doctor.finding import Finding, fail, failed, in_thread, ok, warn
from perdure.engine.api_keys import KeyFile
from perdure.engine.redis import redis_of
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError

FULL_BYTES = 100 * 1024 * 1024
"""Less is full: the files of two messages (PERDURE_HTTP_MAX_BODY_BYTES) may not fit."""
NEARLY_FULL_BYTES = 1024 * 1024 * 1024
"""Less is worth a warning."""
ANSWER_WITHIN_S = 3.0
PORTS = {"grpc": 4317, "http/protobuf": 4318, "http/json": 4318}
"""https://opentelemetry.io/docs/specs/otel/protocol/exporter/"""


async def disk(settings: Settings, *, local: bool) -> list[Finding]:
    """Look for space, and whether we may write, where we do.

    Args:
        settings: Say where.
        local: Whether `perdure dev` would keep its database on this machine.
    """
    folders = {}
    if local:
        folders["PERDURE_DATA_DIR"] = settings.data_dir
    if settings.storage_s3_bucket is None:
        folders["PERDURE_STORAGE_DIR"] = settings.storage_folder
    return [await in_thread(lambda n=n, f=f: _folder(n, f)) for n, f in folders.items()]  # type: ignore[misc]


def _folder(name: str, folder: Path) -> Finding:
    there = folder.expanduser()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as exc:
        return fail(
            "disk",
            f"Nothing can be written in {folder}: {exc.strerror}.",
            f"Make it writable, or set {name} to another folder.",
        )
    return space(name, folder, free)


def space(name: str, folder: Path, free_bytes: int) -> Finding:
    """Return what is to be said about so much free space in a folder that a variable names."""
    told = f"{folder} has {free_bytes / 1024**3:,.1f} GiB free"
    hint = f"Free some, or set {name} to another disk."
    if free_bytes < FULL_BYTES:
        return fail("disk", f"{told}: large payloads, or Runs, can't be kept.", hint)
    if free_bytes < NEARLY_FULL_BYTES:
        return warn("disk", f"{told}.", hint)
    return ok("disk", f"{told}, and can be written.")


async def gateway_keys(settings: Settings) -> list[Finding]:
    """Look whether the gateway's API keys can be read."""
    if settings.api_keys is None:
        why = "PERDURE_API_KEYS is not set: the gateway asks nobody, and listens on this machine."
        return [ok("gateway keys", why)]
    try:
        keys = KeyFile(settings.api_keys).keys()
    except ConfigurationError as exc:
        return [failed("gateway keys", exc)]
    now = datetime.now(UTC)
    valid = sum(not key.is_expired(now) for key in keys)
    if not valid:
        why = "No API key of the gateway is valid."
        return [warn("gateway keys", why, "Make one: `perdure keys create`.")]
    return [ok("gateway keys", f"{valid} of {len(keys)} API keys of the gateway are valid.")]


async def redis(settings: Settings) -> list[Finding]:
    """Look whether Redis answers, where it is configured."""
    try:
        opened = redis_of(settings)
    except ConfigurationError as exc:
        return [failed("redis", exc)]
    if opened is None:
        return [ok("redis", "PERDURE_REDIS_URL is not set: what models say goes by heartbeat.")]
    from redis.exceptions import AuthenticationError, RedisError

    client = opened()
    try:
        await client.execute_command("PING")  # type: ignore[no-untyped-call]
    except AuthenticationError:
        return [fail("redis", "Redis refuses the password.", "Mend PERDURE_REDIS_URL.")]
    except (RedisError, OSError) as exc:
        return [
            fail(
                "redis",
                f"Redis does not answer ({type(exc).__name__}).",
                "Start it, mend PERDURE_REDIS_URL, or unset it: deltas then go by heartbeat.",
            )
        ]
    finally:
        await client.aclose()
    return [ok("redis", "Redis answers.")]


async def collector(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Look whether anything listens where Traces go; Runs go on without it."""
    endpoint = _endpoint(environment)
    if endpoint is None:
        return [ok("traces", "Traces are off: no OTEL_EXPORTER_OTLP_ENDPOINT is set.")]
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        why = "Traces are configured, and what sends them is not installed."
        return [warn("traces", why, "`pip install 'perdure[otlp]'` adds it.")]
    host, port = endpoint
    try:
        await in_thread(lambda: socket.create_connection(endpoint, ANSWER_WITHIN_S).close())
    except OSError as exc:
        return [
            warn(
                "traces",
                f"Nothing takes Traces at {host}:{port}: {exc.strerror or type(exc).__name__}.",
                "Start the collector, or mend OTEL_EXPORTER_OTLP_ENDPOINT.",
            )
        ]
    return [ok("traces", f"Something listens for Traces at {host}:{port}.")]


def _endpoint(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return where Traces go, as the standard variables say."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    url = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or ("http://localhost" if "otlp" in environment.get("OTEL_TRACES_EXPORTER", "") else "")
    )
    if not url:
        return None
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "grpc"
    )
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        return parts.hostname or "localhost", parts.port or PORTS.get(protocol, 4317)
    except ValueError:
        return "(no URL)", 0
