"""The health endpoint of a worker: `/healthz` (it is alive) and `/readyz` (it works).

Served by a thread, so that a worker whose event loop stands still can be told from one that
is gone. Answers 200 or 503, with the reason as JSON.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from perdure.runs.errors import ConfigurationError

TURN_WITHIN_S = 5.0
"""An event loop that does not turn for so long is stuck."""

Problem = Callable[[], str | None]


@contextmanager
def health_endpoint(host: str, port: int, problem: Problem) -> Iterator[str]:
    """Serve health while the block runs; yield the address.

    Args:
        host: Address to listen on.
        port: 0 takes a free one.
        problem: Says why the worker does not work, from any thread; none when it does.

    Raises:
        ConfigurationError: When the port can't be had.
    """
    loop = asyncio.get_running_loop()

    class Handler(_Handler):
        checks: ClassVar = {
            "/healthz": lambda: _stuck(loop),
            "/readyz": lambda: _stuck(loop) or problem(),
        }

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as exc:
        raise ConfigurationError(
            f"Health can't be served at {host}:{port}: {exc.strerror or exc}.",
            hint="Set PERDURE_HEALTH_PORT to a free port.",
        ) from exc
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    checks: ClassVar[dict[str, Problem]]
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        check = self.checks.get(self.path.partition("?")[0])
        if check is None:
            self._answer(404, {"error": f"There are only {' and '.join(self.checks)}."})
            return
        problem = check()
        if problem is None:
            self._answer(200, {"status": "ok"})
        else:
            self._answer(503, {"status": "failing", "reason": problem})

    def _answer(self, status: int, body: dict[str, str]) -> None:
        data = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a probe comes every few seconds."""


def _stuck(loop: asyncio.AbstractEventLoop) -> str | None:
    turned = threading.Event()
    try:
        loop.call_soon_threadsafe(turned.set)
    except RuntimeError:
        return "The worker has ended."
    if turned.wait(TURN_WITHIN_S):
        return None
    return f"The event loop has not turned for {TURN_WITHIN_S:g} s: something blocks it."
