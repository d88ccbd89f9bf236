"""What the audit log says of one call."""

import json
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from perdure.gateway.access import CALLER, Caller
from perdure.gateway.audit import NOTES, Audit

SCOPED = ("run_id", "session_id")
"""Parameters of paths that are ids of a tenant's."""


class Record:
    """Listens to the answer of a call, and writes the line of the audit log when it begins.

    Args:
        scope: Of the call; the routing adds to it.
        audit: The log.
    """

    def __init__(self, scope: Scope, audit: Audit) -> None:
        self._scope = scope
        self._audit = audit
        self._status = 0
        self._is_problem = False
        self._headers = Headers()

    def listening(self, send: Send) -> Send:
        """Return what sends the answer, and listens."""

        async def listened(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
                self._headers = Headers(raw=message["headers"])
                kind = self._headers.get("content-type", "")
                self._is_problem = kind.startswith("application/problem+json")
                if not self._is_problem:
                    # Now: a stream may go on for hours.
                    self.write(self._status)
            elif self._is_problem:
                self._is_problem = False
                self.write(self._status, _code(message.get("body", b"")))
            await send(message)

        return listened

    def write(self, status: int, code: str | None = None) -> None:
        """Write the line; of a call that is refused early, there is no route to name.

        None for calls that come too often: whoever floods the gateway is not to fill the disk.
        """
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return
        caller = self._scope.get(CALLER)
        known = caller if isinstance(caller, Caller) else None
        route = template(self._scope)
        client = self._scope.get("client")
        self._audit.write(
            {
                "caller": known and known.name,
                "key_id": known and known.key_id,
                "tenant": known and known.tenant,
                "method": self._scope["method"],
                "route": route,
                "path": None if route else self._scope["path"],
                **self._ids(known),
                **self._scope.get(NOTES, {}),
                "status": status,
                "code": code or ("ok" if status < 400 else None),
                "client": client[0] if client else None,
            }
        )

    def _ids(self, caller: Caller | None) -> dict[str, Any]:
        found: dict[str, Any] = dict(self._scope.get("path_params") or {})
        if caller is not None:
            found |= {name: caller.scoped(found[name]) for name in SCOPED if name in found}
        made = self._headers.get("location")
        return found if made is None else {**found, "location": made}


def template(scope: Scope) -> str | None:
    """Return the path of the route; that of an included router's route lacks its prefix."""
    whole = scope.get("fastapi", {}).get("effective_route_context")
    path: str | None = getattr(whole or scope.get("route"), "path", None)
    return path


def _code(body: bytes) -> str | None:
    try:
        told = json.loads(body)
    except ValueError:
        return None
    return told.get("code") if isinstance(told, dict) else None
