"""A real Redis server, with a password, that tests may kill, stop and start again."""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import RedisError

from perdure.engine.redis import redis_of
from perdure.engine.settings import Settings
from tests.harness.engine import soon

PASSWORD = "pass-9f3c word/#"  # noqa: S105 - of a server that lives for a test
QUOTED = "pass-9f3c%20word%2F%23"


def is_installed() -> bool:
    return shutil.which("redis-server") is not None


class RedisServer:
    """`redis-server` on a port of 127.0.0.1, with nothing on the disk.

    Args:
        port: One that is free.
        folder: Where it may write.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self.url = SecretStr(f"redis://:{QUOTED}@127.0.0.1:{port}/0")

    async def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        options = {"port": self._port, "bind": "127.0.0.1", "save": '""', "appendonly": "no"}
        options |= {"requirepass": f'"{PASSWORD}"', "dir": self._folder, "loglevel": "warning"}
        file = self._folder / "redis.conf"
        file.write_text("\n".join(f"{name} {value}" for name, value in options.items()))
        self._process = await asyncio.create_subprocess_exec(
            "redis-server", str(file), stdout=asyncio.subprocess.DEVNULL
        )
        await soon(self._answers)

    async def kill(self) -> None:
        """Kill it; all that it holds is lost."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def hang(self) -> None:
        """Let it answer nothing, with its connections open."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        self._signal(signal.SIGCONT)

    def _signal(self, sent: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sent)

    def open(self) -> Redis:
        """Return a client."""
        opened = redis_of(Settings(redis_url=self.url))
        assert opened is not None
        return opened()

    async def ask(self, *command: Any) -> Any:
        """Return the answer to a command."""
        client = self.open()
        try:
            return await client.execute_command(*command)
        finally:
            await client.aclose()

    async def _answers(self) -> bool:
        try:
            return bool(await self.ask("PING"))
        except (OSError, RedisError):
            return False
