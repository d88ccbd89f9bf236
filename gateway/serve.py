"""The gateway as a process: `perdure serve`, `python -m perdure.gateway`."""

import argparse
import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial

import h11
import uvicorn
from temporalio.runtime import Runtime
from uvicorn.protocols.http.h11_impl import H11Protocol

from perdure.activities.redaction import Redactor
from perdure.client.live.source import source_of
from perdure.client.manager import RunManager
from perdure.engine.connect import connect
from perdure.engine.process import configured, run_process, tell_parent
from perdure.engine.runtime import start_runtime
from perdure.engine.settings import Settings
from perdure.engine.tracing import tracing
from perdure.gateway.app import create_app
from perdure.gateway.binding import checked_binding
from perdure.gateway.census import Census
from perdure.gateway.problems import MEDIA_TYPE, Refused, problem
from perdure.runs.errors import ConfigurationError, ErrorCode
from perdure.runs.metering import Instruments

MAX_HEADER_BYTES = 64 * 1024
"""Request line and headers together."""
GRACE_S = 5
"""How long requests get to end when the gateway is stopped; those that only wait end at once."""
BACKLOG = 2048

log = logging.getLogger("perdure.gateway")


class Protocol(H11Protocol):
    """HTTP/1.1; what is no request is told so as a problem, like everything else."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what can't be read, and close."""
        unread, _ = self.conn.trailing_data
        if len(unread) > MAX_HEADER_BYTES:
            allowed = f"{MAX_HEADER_BYTES:,} bytes"
            refused = Refused(
                ErrorCode.PAYLOAD_TOO_LARGE, f"The headers have more than {allowed}.", status=431
            )
        else:
            refused = Refused(ErrorCode.PROVIDER_REFUSED_REQUEST, msg, status=400)
        said = problem(refused)
        headers = [("Content-Type", MEDIA_TYPE), ("Connection", "close")]
        headers.append(("Content-Length", str(len(said.body))))
        for event in (
            h11.Response(status_code=said.status_code, headers=headers),
            h11.Data(data=bytes(said.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """A server that whoever runs it stops: uvicorn's own handling of signals changes exit codes."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def server(settings: Settings, manager: RunManager) -> Server:
    """Return a server of the gateway; `stop` stops it."""
    config = uvicorn.Config(
        create_app(manager, settings),
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it has the query; the guard logs what is everybody's business
        server_header=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=GRACE_S,
    )
    return Server(config)


async def stop(running: Server) -> None:
    """Let a server take no more requests, and end those that only wait, or follow a Run."""
    running.should_exit = True
    state = running.config.app.state  # type: ignore[union-attr]
    state.stopping.set()
    await state.watches.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ConfigurationError: When the address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as exc:
        raise ConfigurationError(
            f"The gateway can't listen on {host}:{port}: {exc.strerror or exc}.",
            hint="Choose another port with --port or PERDURE_HTTP_PORT; 0 takes a free one.",
        ) from exc


def address(listening: socket.socket) -> str:
    """Return the URL of what listens."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(settings: Settings, stopped: asyncio.Event, ready: Callable[[str], object]) -> None:
    """Serve until `stopped` is set. Temporal need not be there yet, nor stay: `/readyz` tells.

    Args:
        settings: Where to listen.
        stopped: Set it to stop.
        ready: Called with the address once connections are taken.

    Raises:
        ConfigurationError: When the address, or the storage for large data, can't be used.
    """
    checked_binding(settings.http_host, has_keys=settings.api_keys is not None)
    start_runtime(settings.metrics_host, settings.http_metrics_port, "PERDURE_HTTP_METRICS_PORT")
    with tracing():
        await _serve(settings, stopped, ready)


async def _serve(
    settings: Settings, stopped: asyncio.Event, ready: Callable[[str], object]
) -> None:
    # No plugin for this client: a Run is told of its caller's span by its start, and a Session,
    # which outlives every request, of none.
    client = await connect(settings, lazy=True)
    manager = RunManager(client, settings.task_queue, source_of(client, settings))
    with listen(settings.http_host, settings.http_port) as listening:
        running = server(settings, manager)
        serving = asyncio.create_task(running.serve(sockets=[listening]))
        stopping = asyncio.create_task(stopped.wait())
        async with _census(settings, manager, running):
            ready(address(listening))
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await stop(running)
        await serving


def _census(
    settings: Settings, manager: RunManager, running: Server
) -> AbstractAsyncContextManager[None]:
    if settings.http_metrics_port is None:
        return nullcontext()
    watches = running.config.app.state.watches  # type: ignore[union-attr]
    instruments = Instruments(Runtime.default().metric_meter)
    return Census(manager.client, settings.task_queue, watches, instruments).taken()


def _tell_parent(url: str) -> None:
    tell_parent(f"ready {url}")


def _tell_people(url: str) -> None:
    log.info("Gateway: %s", url)


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="perdure serve", description="Serve HTTP.")
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="0 takes a free one")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = configured(Redactor)
    given = {"http_host": options.host, "http_port": options.port}
    chosen = {name: value for name, value in given.items() if value is not None}
    ready = _tell_parent if options.child else _tell_people
    serving = partial(serve, settings.model_copy(update=chosen), ready=ready)
    asyncio.run(run_process(serving, child=options.child))
