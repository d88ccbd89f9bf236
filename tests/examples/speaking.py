"""The three routes of the gateway that the example clients ask for."""

from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure.client.live.source import Heartbeats
from perdure.client.live.watches import Watches
from perdure.client.manager import RunManager
from perdure.gateway.streaming.sse import ServerSentEvents, StreamResponse
from perdure.runs.deltas import LiveEvent, Position

KEY = "key-of-the-examples"


class Speaking:
    """Starts Runs and lets them be followed.

    Args:
        manager: Connected.
    """

    def __init__(self, manager: RunManager) -> None:
        self._manager = manager
        self.watches = Watches(manager.client, Heartbeats(manager.client))

    def app(self) -> Starlette:
        """Return it as an application."""
        return Starlette(
            routes=[
                Route("/v1/runs", self._start, methods=["POST"]),
                Route("/v1/runs/{run_id}", self._get),
                Route("/v1/runs/{run_id}/events", self._events),
            ]
        )

    async def _start(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Response("no such key", status_code=401)
        body, key = await request.json(), request.headers["idempotency-key"]
        run_id = await self._manager.start_run(body["agent"], body["input"], idempotency_key=key)
        return JSONResponse({"run_id": run_id}, status_code=202)

    async def _get(self, request: Request) -> Response:
        run = await self._manager.get_run(request.path_params["run_id"])
        return Response(run.model_dump_json(), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        run_id = request.path_params["run_id"]
        position = Position.parse(request.headers.get("last-event-id", "-1"))

        async def items() -> AsyncIterator[LiveEvent | None]:
            async with self.watches.watching(run_id) as live:
                async for item in live.read(position, alive_s=0.5):
                    yield item

        return StreamResponse(items(), ServerSentEvents())
