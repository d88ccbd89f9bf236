"""Connecting to Temporal, and saying clearly when that can't be."""

import asyncio
import atexit
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from temporalio.client import Client, Plugin
from temporalio.service import RPCError

from perdure.engine.converter import data_converter
from perdure.engine.destination import Destination
from perdure.engine.refusals import Refused, refused
from perdure.engine.settings import Settings
from perdure.runs.errors import PerdureError

CONNECT_TIMEOUT = timedelta(seconds=5)
"""How long an address may be silent before it counts as not answering."""
CONNECT_WITHIN_S = 10.0
"""Until whoever accepts a connection, and then says nothing, is given up. By itself the SDK waits
for half a minute after the TLS handshake, and for minutes before it (measured, 1.35)."""
SETTLE_S = 0.1
"""Given to the SDK's threads before an interpreter ends: one that holds on to it then aborts the
process (seen with 1.35 on Python 3.11, in about one of twenty scripts on a busy machine)."""
SETTINGS = 4
EMPTY_SETTINGS = bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""An HTTP/2 frame: length 0, its type, no flags, stream 0."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def leave(code: int) -> NoReturn:
    """End the process with an exit code, without finalising the interpreter.

    For our own commands, whose exit code must be right: see `SETTLE_S`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@dataclass(frozen=True)
class Address:
    """Where Temporal is to be found."""

    host: str
    port: int

    @classmethod
    def configured(cls) -> "Address":
        """Return the address of Temporal's own configuration, or the default one.

        Raises:
            ConfigurationError: When that configuration is unusable.
        """
        found = Destination.configured()
        return cls(found.host, found.port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """True for an address of this machine."""
        return self.host in ("127.0.0.1", "localhost", "::1")

    async def is_open(self) -> bool:
        """Tell whether anything at all accepts connections there."""
        try:
            async with self._connection():
                return True
        except (OSError, TimeoutError):
            return False

    async def speaks_http2(self) -> bool:
        """Tell whether what listens there answers as every gRPC server without TLS does.

        It must begin with a SETTINGS frame: https://www.rfc-editor.org/rfc/rfc9113#section-3.4
        """
        try:
            async with self._connection() as (reader, writer):
                writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + EMPTY_SETTINGS)
                return (await reader.readexactly(len(EMPTY_SETTINGS)))[3] == SETTINGS
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return False

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Streams]:
        async with asyncio.timeout(CONNECT_TIMEOUT.total_seconds()):
            streams = await asyncio.open_connection(self.host, self.port)
            try:
                yield streams
            finally:
                streams[1].close()
                with contextlib.suppress(OSError):
                    await streams[1].wait_closed()


async def connect(
    settings: Settings | None = None, *, lazy: bool = False, plugins: Sequence[Plugin] = ()
) -> Client:
    """Connect as Temporal's configuration says (`TEMPORAL_ADDRESS`, profiles, TLS, API keys).

    Args:
        settings: Where large payloads are kept; the environment's by default.
        lazy: Connect when something is asked for first, and again until that works: for what is
            to be up before Temporal is. Asking raises `RuntimeError` until then.
        plugins: Of the client, such as those of Traces.

    Raises:
        ConfigurationError: When that configuration, or the storage, can't be used, or the server
            does not let us in with it.
        EngineUnavailable: When no Temporal server answers there.
    """
    destination = Destination.configured()
    config = destination.config
    converter = data_converter(settings)
    # Looked at first: the SDK tries for half a minute, and its threads crash an interpreter
    # that ends meanwhile. Behind TLS or a proxy only the SDK can tell.
    plain = not {"tls", "api_key", "http_connect_proxy_config"} & config.keys()
    if plain and not lazy:
        await _require_http2(Address(destination.host, destination.port))
    atexit.unregister(time.sleep)
    atexit.register(time.sleep, SETTLE_S)
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            return await Client.connect(
                **config,
                data_converter=converter,
                connect_timeout=CONNECT_TIMEOUT,
                lazy=lazy,
                plugins=plugins,
            )
    except (RuntimeError, ValueError, RPCError, TimeoutError) as exc:
        raise _refusal(exc, destination) from exc


async def _require_http2(address: Address) -> None:
    if not await address.speaks_http2():
        why = Refused.NO_PLAIN if await address.is_open() else Refused.ABSENT
        raise refused(why, str(address))


def _refusal(exc: Exception, destination: Destination) -> PerdureError:
    tls = bool(destination.config.get("tls"))
    return refused(Refused.told_by(str(exc), tls=tls), str(destination))
