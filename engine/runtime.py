"""The SDK's runtime of a worker or gateway: how it logs, and where it serves metrics.

Its own metrics and ours are served together. It must be started before anything connects to
Temporal: a client belongs to the runtime that it was made with.
"""

import logging
import socket

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from perdure.engine import logs
from perdure.runs.errors import ConfigurationError
from perdure.runs.metrics import LONG_S, METRICS, SHORT_S

log = logging.getLogger("perdure.engine")

SDK_BUCKETS = {
    "temporal_activity_schedule_to_start_latency": SHORT_S,
    "temporal_workflow_task_schedule_to_start_latency": SHORT_S,
    "temporal_workflow_task_execution_latency": SHORT_S,
    "temporal_workflow_task_replay_latency": SHORT_S,
    "temporal_request_latency": SHORT_S,
    "temporal_long_request_latency": LONG_S,
    "temporal_activity_execution_latency": LONG_S,
    "temporal_activity_succeed_endtoend_latency": LONG_S,
    "temporal_workflow_endtoend_latency": LONG_S,
}
"""In seconds. The SDK's own buckets end where the Steps of an agent begin."""


def start_runtime(host: str, port: int | None, variable: str) -> None:
    """Start the runtime; serve metrics for Prometheus at `/metrics`, if a port is given.

    Args:
        host: An IP address of this machine.
        port: 0 takes a free one.
        variable: Names the port in the environment.

    Raises:
        ConfigurationError: When the address can't be had.
    """
    if port is None:
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logs.core_logging())))
        return
    place = f"[{host}]" if ":" in host else host
    buckets = {each.name: each.buckets for each in METRICS if each.buckets} | SDK_BUCKETS
    try:
        address = f"{place}:{port or _free(host)}"
        config = PrometheusConfig(
            bind_address=address,
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
            histogram_bucket_overrides=buckets,
        )
        telemetry = TelemetryConfig(
            logging=logs.core_logging(), metrics=config, attach_service_name=False
        )
        runtime = Runtime(telemetry=telemetry)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(
            f"Metrics can't be served at {place}:{port}: {exc}.",
            hint=f"Set {variable} to a free port, and PERDURE_METRICS_HOST to an IP address of "
            "this machine.",
        ) from exc
    Runtime.set_default(runtime)
    log.info("Metrics: http://%s/metrics", address)


def _free(host: str) -> int:
    """Return a free port: the SDK takes one, but does not tell which."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as taken:
        port: int = taken.getsockname()[1]
        return port
