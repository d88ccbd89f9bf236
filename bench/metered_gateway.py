"""`python -m bench.metered_gateway PORT`: the gateway, with the SDK's own metrics on a port.

They tell what it asks of Temporal: the gateway itself counts nothing.
"""

import runpy
import sys

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

if __name__ == "__main__":
    address = f"127.0.0.1:{sys.argv.pop(1)}"
    metrics = PrometheusConfig(bind_address=address)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=metrics)))
    runpy.run_module("perdure.gateway", run_name="__main__")
