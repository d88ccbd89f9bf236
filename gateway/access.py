"""Who calls, and what they may do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from fastapi import Request

Scope = Literal["read", "write", "approve", "admin"]
EVERYTHING: frozenset[Scope] = frozenset(("read", "write", "approve", "admin"))


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

    def scoped(self, given: str) -> str:
        """Return the id that an id given by this caller stands for.

        A foreign id becomes one that does not exist: what belongs to another tenant can't even be
        named, wherever the id stands.
        """
        if self.tenant is None or given.startswith(f"{self.tenant}:"):
            return given
        return f"{self.tenant}:{given}"


ANYBODY = Caller("anonymous", EVERYTHING)
"""Where no keys are asked for: on this machine only."""


def needs(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """Return the dependency of a route that needs a scope: it gives the caller."""

    async def caller(request: Request) -> Caller:
        return ANYBODY

    return caller
