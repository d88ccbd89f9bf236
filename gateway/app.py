"""The application: routes, errors and the OpenAPI document put together."""

import asyncio
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version

from fastapi import FastAPI
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.runtime import Runtime
from temporalio.service import RPCError

from perdure.client.live.watches import Watches
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.gateway import problems
from perdure.gateway.callers_span import CallersSpan, is_unrecorded
from perdure.gateway.described import describe, name_of
from perdure.gateway.guard import secure
from perdure.gateway.metered import Metered
from perdure.gateway.remembered import Remembered
from perdure.gateway.routes import (
    actions,
    ag_ui,
    agents,
    health,
    page,
    runs,
    sessions,
    starting,
    steering,
    steps,
)
from perdure.runs.metering import Instruments

AGENTS_FOR_S = 10.0
"""How long the list of agents is remembered: asking a worker leaves a record in Temporal."""
READY_FOR_S = 1.0
"""How long Temporal's health is: whoever may call without a key is not to make it busy."""
ANSWERS_WITHIN = timedelta(seconds=3)


def create_app(manager: RunManager, settings: Settings) -> FastAPI:
    """Return the gateway as an ASGI application.

    It keeps nothing: any number of them may serve the same Runs.

    Args:
        manager: Connected, or one that will connect when it is first used.
        settings: As the environment has them.
    """
    app = FastAPI(
        title="Perdure",
        version=_version(),
        docs_url=None,  # they load code from elsewhere
        redoc_url=None,
        openapi_url=None,  # served by a route that asks who calls
        redirect_slashes=False,
        generate_unique_id_function=name_of,
        telemetry={
            # Spans only where `serve` has set Traces up; metrics are Temporal's runtime's, and its
            # logs would hold the words of exceptions.
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": is_unrecorded,
        },
    )
    app.state.manager = manager
    app.state.settings = settings
    app.state.stopping = asyncio.Event()
    app.state.agents = Remembered(manager.list_agents, AGENTS_FOR_S)
    app.state.ready = Remembered(lambda: _unready(manager), READY_FOR_S)
    app.state.watches = Watches(manager.client, manager.source)
    problems.install(app)
    for each in (starting, runs, steps, steering, actions, sessions, agents, ag_ui, health, page):
        app.include_router(each.router)

    app.add_middleware(CallersSpan)
    secure(app, settings)
    if settings.http_metrics_port is not None:
        # Around the guard: what is refused counts as well.
        app.add_middleware(Metered, instruments=Instruments(Runtime.default().metric_meter))

    def openapi() -> dict[str, object]:
        app.openapi_schema = app.openapi_schema or describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


async def _unready(manager: RunManager) -> str | None:
    """Return why the gateway can't work; none when it can."""
    namespace = manager.client.namespace
    try:
        # The least that needs Temporal's database as well.
        await manager.client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=namespace), timeout=ANSWERS_WITHIN
        )
    except RPCError as exc:
        return f"Temporal did not answer ({exc.status.name.lower()})."
    except RuntimeError:
        return "Temporal does not answer at the configured address."
    return None


def _version() -> str:
    try:
        return version("perdure")
    except PackageNotFoundError:
        return "0"
