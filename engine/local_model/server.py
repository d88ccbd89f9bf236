"""The command `python -m perdure.engine.local_model.server`: a local model on 127.0.0.1.

Everything for people goes to stderr. Whoever starts it reads the ready file, which is written
once requests are answered: {"base_url": "http://127.0.0.1:PORT/v1", "model": "…"}.
"""

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import uvicorn

from perdure.engine import logs
from perdure.engine.local_model.app import Service, make_app
from perdure.engine.local_model.backend import Backend
from perdure.engine.local_model.weights import LocalModelUnavailable, find_weights
from perdure.engine.settings import Settings

HOST = "127.0.0.1"
"""Nobody else's business: the model is for programs on this machine."""
GRACE_S = 2
"""Time that replies under way have to end when the server is asked to stop."""
GIVE_UP_S = 10.0
"""Time after which a server without a parent is gone for certain."""
PROGRESS_STEPS = 10
"""Lines of progress while the model's file is joined."""

log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop.

    Returns:
        The exit code: 0 after SIGTERM, SIGINT or the end of stdin; 3 if there is no model.
    """
    options = _options(arguments)
    settings = Settings.configured()
    logs.set_up(settings.log_format, settings.log_level)
    stop = _Stop()
    if options.exit_with_stdin:
        threading.Thread(target=stop.with_input, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        weights = find_weights(progress=_log_progress())
        log.info("Loading %s …", weights.path)
        backend = Backend(weights.path, cache_prompt=options.cache_prompt)
    except LocalModelUnavailable as error:
        log.error("%s", error)
        return 3
    with socket.create_server((HOST, options.port)) as listener:
        base_url = f"http://{HOST}:{listener.getsockname()[1]}/v1"

        def ready() -> None:
            log.info("Serving %s at %s", weights.name, base_url)
            if options.ready_file:
                _write_ready(options.ready_file, base_url, weights.name)

        service = Service(backend, weights.name, options.api_key)
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=GRACE_S,
        )
        server = _Server(config, ready)
        stop.server = server
        # uvicorn raises the signal again after it has stopped; that was the answer to it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop.on_signal)
        server.run(sockets=[listener])
    return 0


class _Stop:
    """Ends the process, at whatever point of its life it is."""

    server: uvicorn.Server | None = None

    def on_signal(self, number: int, _frame: object) -> None:
        """Note a signal that uvicorn has dealt with already."""

    def with_input(self, stdin: BinaryIO) -> None:
        """Stop when `stdin` ends, as it does when the parent process dies in any way."""
        while stdin.read(1024):
            pass
        if self.server is None:
            os._exit(0)  # still loading: nothing is open but a file with a temporary name
        self.server.should_exit = True
        threading.Timer(GIVE_UP_S, os._exit, (0,)).start()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m perdure.engine.local_model.server",
        description="Serve a small local model by OpenAI's Chat Completions API, on 127.0.0.1.",
    )
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument(
        "--api-key",
        default=os.environ.get("PERDURE_LOCAL_MODEL_KEY"),
        help="what clients have to send as bearer; by default PERDURE_LOCAL_MODEL_KEY, "
        "which other users of the machine can't see",
    )
    parser.add_argument("--ready-file", type=Path, help="written once requests are answered")
    parser.add_argument(
        "--exit-with-stdin", action="store_true", help="stop at the end of standard input"
    )
    parser.add_argument(
        "--cache-prompt",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="reuse what two prompts have in common: 4 s less a turn with three tools, but then "
        "a reply depends on what was asked before",
    )
    options = parser.parse_args(arguments)
    if not options.api_key:
        parser.error("a key is needed: --api-key or PERDURE_LOCAL_MODEL_KEY")
    return options


def _log_progress() -> Callable[[int, int], None]:
    step = -1

    def progress(done: int, total: int) -> None:
        nonlocal step
        if (now := done * PROGRESS_STEPS // total) > step:
            step = now
            log.info("Joining the model's file: %d of %d MB", done // 10**6, total // 10**6)

    return progress


def _write_ready(path: Path, base_url: str, model: str) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    unfinished.write_text(json.dumps({"base_url": base_url, "model": model}))
    unfinished.replace(path)


if __name__ == "__main__":
    sys.exit(main())
