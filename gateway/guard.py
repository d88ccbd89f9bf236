"""The guard before all routes: what gets past it has a `Caller`, and is within bounds.

It stands before the routing, so a route that there is not, or that was forgotten, is closed as
well. Nothing is read of a call before it is known who calls.
"""

import ipaddress
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from fastapi import FastAPI, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.engine.api_keys import KeyFile
from perdure.engine.key_ring import KeyRing
from perdure.engine.settings import Settings
from perdure.gateway.access import CALLER, Caller, authenticated, unauthorized
from perdure.gateway.answered import answered
from perdure.gateway.audit import Audit
from perdure.gateway.binding import is_loopback_host
from perdure.gateway.incoming import check_type, checked_body
from perdure.gateway.origins import check_origin, checked_origins
from perdure.gateway.problems import Refused, problem
from perdure.gateway.rates import Rates, Streams, slow_down
from perdure.gateway.record import Record
from perdure.runs.errors import ErrorCode

OPEN = ("/healthz", "/readyz")
"""What needs no key."""
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
"""All headers together."""
MAX_URL_BYTES = 8 * 1024
"""Path and query."""
FAILURES_PER_MINUTE = 60
"""Calls without a valid key of one client address; more are not even answered 401."""
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
EXPOSED = ("Location", "Retry-After", "Idempotency-Replayed", "WWW-Authenticate")
ACCEPTED = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Traceparent")
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")

STACK = "perdure.stack"
"""Where a request's scope has what is left when it has been answered."""
log = logging.getLogger("perdure.gateway")


@dataclass
class Access:
    """What decides who gets in, and how far.

    Attributes:
        keys: None where no key is asked for.
        rates: Calls of each key.
        failures: Calls without a valid key, of each client address.
        streams: Open streams of each key.
        audit: The audit log; none where nobody shows a key, and no file is named.
        origins: Whose pages may call, besides our own.
        max_body_bytes: Of one request.
    """

    keys: KeyRing | None
    rates: Rates
    failures: Rates
    streams: Streams
    audit: Audit | None
    origins: tuple[str, ...]
    max_body_bytes: int

    @classmethod
    def configured(cls, settings: Settings) -> Self:
        """Return what the settings say.

        Raises:
            ConfigurationError: When an origin is unusable, or the audit log can't be written.
        """
        path = settings.api_keys
        return cls(
            keys=KeyRing(KeyFile(path)) if path is not None else None,
            rates=Rates(settings.http_rate_per_minute),
            failures=Rates(FAILURES_PER_MINUTE),
            streams=Streams(settings.http_streams_per_key),
            audit=Audit(settings.audit_log) if path is not None or settings.audit_log else None,
            origins=checked_origins(settings.cors_origins, has_keys=path is not None),
            max_body_bytes=settings.http_max_body_bytes,
        )


def secure(app: FastAPI, settings: Settings) -> None:
    """Put the guard before everything else of an application.

    Raises:
        ConfigurationError: As `Access.configured`.
    """
    access = Access.configured(settings)
    app.state.access = access
    app.add_middleware(Guard, access=access)
    if access.origins:
        # Around the guard: browsers ask whether they may ask without showing a key.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=access.origins,
            allow_methods=METHODS,
            allow_headers=ACCEPTED,
            allow_credentials="*" not in access.origins,
            expose_headers=EXPOSED,
        )


async def hold_stream(request: Request, caller: Caller) -> None:
    """Count a stream of a caller until the request has been answered, or its client has gone.

    Raises:
        Refused: When the caller holds as many as are allowed.
    """
    if caller.key_id is None:
        return
    access: Access = request.app.state.access
    stack: AsyncExitStack = request.scope[STACK]
    await stack.enter_async_context(access.streams.held(caller.key_id))


class Guard:
    """ASGI middleware that lets calls in, or answers them itself.

    Args:
        app: What is guarded.
        access: What decides.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._told = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            with answered(scope, send) as heard:
                await self._http(scope, receive, _hardened(heard))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in READING or self._access.audit is None:
            record = None
        else:
            record = Record(scope, self._access.audit)
            send = record.listening(send)
        try:
            receive = await self._passed(scope, receive)
        except Refused as exc:
            if exc.status == 503:
                self._tell(exc)
            await problem(exc)(scope, receive, send)
            return
        async with AsyncExitStack() as stack:
            scope[STACK] = stack
            try:
                await self._app(scope, receive, send)
            except Exception:
                if record is not None:
                    record.write(500, ErrorCode.INTERNAL)
                raise

    async def _passed(self, scope: Scope, receive: Receive) -> Receive:
        """Return what gives the body, once everything has been checked.

        Raises:
            Refused: When something is not as it has to be.
        """
        headers = Headers(scope=scope)
        _check_size(scope)
        if scope["path"] in OPEN and scope["method"] in READING:
            return receive
        self._check_place(headers)
        caller = self._caller(scope, headers)
        scope[CALLER] = caller
        if caller.key_id is not None and (wait_s := self._access.rates.wait_s(caller.key_id)):
            raise slow_down("This API key calls more often than it may.", wait_s)
        if scope["method"] in READING:
            return receive
        check_type(headers)
        return await checked_body(headers, receive, self._access.max_body_bytes)

    def _check_place(self, headers: Headers) -> None:
        if self._access.keys is None and not is_loopback_host(headers.get("host", "")):
            raise Refused(
                ErrorCode.FORBIDDEN,
                "Without API keys, the gateway answers to localhost and 127.0.0.1 only.",
                status=421,
                hint="Call it by one of these names, or set PERDURE_API_KEYS.",
            )
        check_origin(headers, self._access.origins)

    def _caller(self, scope: Scope, headers: Headers) -> Caller:
        caller = authenticated(headers, self._access.keys)
        if caller is not None:
            return caller
        # Who has a key gets in from any address: others behind the same proxy can't lock them out.
        if wait_s := self._access.failures.wait_s(_address(scope)):
            raise slow_down("Too many requests without a valid API key came from there.", wait_s)
        raise unauthorized()

    def _tell(self, exc: Refused) -> None:
        why = str(exc.__cause__)
        if why != self._told:
            self._told = why
            log.error("Nobody is let in. %s", why)


def _check_size(scope: Scope) -> None:
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        raise Refused(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"There are more than {MAX_HEADERS} headers, or {MAX_HEADER_BYTES:,} bytes of them.",
            status=431,
            hint="Send fewer.",
        )
    if len(scope["path"]) + len(scope["query_string"]) > MAX_URL_BYTES:
        raise Refused(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"The URL has more than {MAX_URL_BYTES:,} bytes.",
            status=422,
            hint="Send less in it.",
        )


def _address(scope: Scope) -> str:
    """Return whose failures are counted together: of IPv6, everybody has a whole network."""
    host = scope["client"][0] if scope.get("client") else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host


def _hardened(send: Send) -> Send:
    """Return what sends an answer with the headers that browsers obey."""

    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return hardened
