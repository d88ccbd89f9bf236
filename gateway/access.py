"""Who calls, and what they may do."""

import base64
import binascii
from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import Headers

from perdure.engine.api_keys import INCLUDED, MAX_KEY_CHARS, ApiKey, Scope
from perdure.engine.key_ring import KeyRing
from perdure.gateway.problems import Refused
from perdure.runs.errors import ConfigurationError, ErrorCode

EVERYTHING = INCLUDED["admin"]
CALLER = "perdure.caller"
"""Where a request's scope has its `Caller`; the guard puts it there."""
CHALLENGE = {"WWW-Authenticate": ('Bearer realm="Perdure"', 'Basic realm="Perdure"')}
"""Two lines, because browsers don't ask for a password when another scheme begins theirs."""
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "For browsers: any user name, and an API key as the password.",
    },
}
"""What an OpenAPI document says of it."""


@dataclass(frozen=True)
class Caller:
    """Somebody who calls.

    Attributes:
        name: Kept with what they decide, and in the audit log.
        scopes: What they may do.
        tenant: Whose ids they see: all of a tenant's begin with its name and a colon. None sees
            all ids.
        key_id: Which API key they have shown, if one is asked for.
    """

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    key_id: str | None = None

    @property
    def prefix(self) -> str:
        """What all ids begin with that the caller sees."""
        return "" if self.tenant is None else f"{self.tenant}:"

    def scoped(self, given: str) -> str:
        """Return the id that an id given by this caller stands for.

        A foreign id becomes one that does not exist: what belongs to another tenant can't even be
        named, wherever the id stands.
        """
        return given if given.startswith(self.prefix) else f"{self.prefix}{given}"


ANYBODY = Caller("anonymous", EVERYTHING)
"""Where no keys are asked for: on this machine only."""


@dataclass(frozen=True)
class Needs:
    """The dependency of a route that needs a scope: it gives the caller.

    Attributes:
        scope: The scope.
    """

    scope: Scope

    async def __call__(self, request: Request) -> Caller:
        """Return who calls.

        Raises:
            Refused: When they may not do this.
        """
        caller = request.scope.get(CALLER)
        if not isinstance(caller, Caller):
            # Nobody has looked: the application stands there without its guard.
            raise unauthorized()
        if self.scope not in caller.scopes:
            raise Refused(
                ErrorCode.FORBIDDEN,
                f"This needs the scope {self.scope!r}, which the API key does not have.",
                status=403,
                hint="Use a key with it; `perdure keys create` makes one.",
            )
        return caller


def needs(scope: Scope) -> Needs:
    """Return the dependency of a route that needs a scope: it gives the caller."""
    return Needs(scope)


def authenticated(headers: Headers, keys: KeyRing | None) -> Caller | None:
    """Return who calls, or nobody if they show no valid key.

    Raises:
        Refused: When the keys can't be read.
    """
    if keys is None:
        return ANYBODY
    given = _shown(headers)
    try:
        key = keys.find(given or "")
    except ConfigurationError as exc:
        raise Refused(
            exc.code,
            "The gateway can't read its API keys, so it lets nobody in.",
            status=503,
            hint="Its own log says why.",
        ) from exc
    return _caller(key) if key is not None else None


def unauthorized() -> Refused:
    """Return the answer to a call without a valid key; it doesn't say what is wrong with one."""
    return Refused(
        ErrorCode.UNAUTHORIZED,
        "There is no valid API key with the request.",
        status=401,
        hint="Send one as `Authorization: Bearer …`, or as the password of HTTP Basic.",
        headers=CHALLENGE,
    )


def _caller(key: ApiKey) -> Caller:
    return Caller(key.name, key.allows, key.tenant, key.id)


def _shown(headers: Headers) -> str | None:
    """Return the key in the headers; keys in URLs are logged everywhere, and not looked for."""
    found = headers.getlist("authorization")
    if len(found) != 1 or len(found[0]) > 8 * MAX_KEY_CHARS:
        return None
    scheme, _, given = found[0].partition(" ")
    match scheme.lower():
        case "bearer":
            return given.strip()
        case "basic":
            try:
                pair = base64.b64decode(given.strip(), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                return None
            return pair.partition(":")[2]
        case _:
            return None
