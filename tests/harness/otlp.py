"""A real OTLP receiver: over gRPC and over HTTP, as collectors have it; and broken ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import uvicorn
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.gateway.serve import Server, address, listen
from tests.harness.engine import soon

Exported = trace_service_pb2.ExportTraceServiceRequest
Answer = trace_service_pb2.ExportTraceServiceResponse


@dataclass(frozen=True)
class Span:
    """One span, as it came in."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    kind: int
    error: bool
    took_ns: int
    service: str
    scope: str
    raw: str
    """All of it, as text."""

    def __getitem__(self, name: str) -> Any:
        return self.attributes.get(name)


@dataclass
class Receiver:
    """What was received, and where.

    Attributes:
        grpc_url: For `OTEL_EXPORTER_OTLP_PROTOCOL=grpc`.
        http_url: For `http/protobuf`.
    """

    grpc_url: str = ""
    http_url: str = ""
    spans: list[Span] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    """Of requests over HTTP."""
    requests: int = 0
    broken: Callable[[], Awaitable[Response]] | None = None
    """Answers instead, over HTTP."""

    def env(self, protocol: str = "http/protobuf", **more: str) -> dict[str, str]:
        """Return the standard variables that lead here; spans come soon."""
        url = self.grpc_url if protocol == "grpc" else self.http_url
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            **more,
        }

    def of(self, trace_id: str) -> list[Span]:
        """Return the spans of one Trace."""
        return [span for span in self.spans if span.trace_id == trace_id]

    async def until(self, trace_id: str, *names: str) -> list[Span]:
        """Wait until a Trace has spans of these names; return all that it has."""

        async def are_there() -> bool:
            there = [span.name for span in self.of(trace_id)]
            return all(there.count(name) >= names.count(name) for name in names)

        try:
            await soon(are_there)
        except TimeoutError:
            there = [span.name for span in self.spans]
            raise AssertionError(f"{names} expected, {there} there") from None
        return self.of(trace_id)

    def take(self, exported: Exported) -> None:
        """Take one export."""
        self.requests += 1
        for group in exported.resource_spans:
            resource = _attributes(group.resource.attributes)
            for scoped in group.scope_spans:
                for each in scoped.spans:
                    self.spans.append(
                        Span(
                            name=each.name,
                            trace_id=each.trace_id.hex(),
                            span_id=each.span_id.hex(),
                            parent_id=each.parent_span_id.hex(),
                            attributes=_attributes(each.attributes),
                            kind=each.kind,
                            error=each.status.code == 2,
                            took_ns=each.end_time_unix_nano - each.start_time_unix_nano,
                            service=str(resource.get("service.name")),
                            scope=scoped.scope.name,
                            raw=str(each),
                        )
                    )

    async def Export(self, request: Exported, context: Any) -> Any:
        """Take one export over gRPC."""
        self.take(request)
        return Answer()

    async def post(self, request: Request) -> Response:
        """Take one export over HTTP."""
        body = await request.body()
        if self.broken is not None:
            self.requests += 1
            return await self.broken()
        self.headers.append(request.headers)
        self.take(Exported.FromString(body))
        return Response(Answer().SerializeToString(), media_type="application/x-protobuf")


async def refuses() -> Response:
    """Answer as a collector that is broken."""
    return Response(status_code=500)


async def never_answers() -> Response:
    """Answer as one that has accepted, and hangs until its client is gone."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)
    return Response()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Receive spans for the length of the block."""
    receiver = Receiver()
    over_grpc = grpc.aio.server()
    add = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(receiver, over_grpc)  # type: ignore[no-untyped-call]
    receiver.grpc_url = f"http://127.0.0.1:{over_grpc.add_insecure_port('127.0.0.1:0')}"
    await over_grpc.start()
    app = Starlette(routes=[Route("/v1/traces", receiver.post, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    with listen("127.0.0.1", 0) as listening:
        receiver.http_url = address(listening)
        over_http = Server(config)
        serving = asyncio.create_task(over_http.serve(sockets=[listening]))
        try:
            yield receiver
        finally:
            over_http.should_exit = True
            await serving
            await over_grpc.stop(None)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None
