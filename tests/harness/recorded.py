"""What the server remembers of one request."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from tests.harness.replies import Usage


@dataclass(eq=False)
class RecordedRequest:
    """One request, and what became of it."""

    index: int
    """Position among all requests of the server, from 0."""
    method: str
    path: str
    headers: dict[str, str]
    """With lower-case names; of a repeated header the last."""
    raw: bytes
    body: dict[str, Any]
    """The parsed body; empty if it was not a JSON object."""
    arrived_at: float
    """`time.monotonic()` when the last byte of the request had been read."""
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed the connection before the reply was complete."""
    completed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the reply was sent up to its scripted end; never for one that hangs."""
    reported_usage: Usage | None = None
    """The last usage that was sent to the client."""
    chunks_sent: int = 0
    """Parts of the body that were sent so far, whatever they say."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the request."""
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return str(self.body.get("model", "scripted"))

    @property
    def stream(self) -> bool:
        """Whether the reply is to come as a stream."""
        return self.body.get("stream") is True

    @property
    def include_usage(self) -> bool:
        """Whether a streamed reply is to report its usage."""
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


def parse_body(raw: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON object in `raw`, and what is wrong with it as JSON.

    Python reads `NaN` and `Infinity` in JSON, nobody else does; they are reported, and kept.
    """
    violations: list[str] = []

    def constant(name: str) -> float:
        violations.append(f"the body holds {name}, which is not JSON")
        return float(name)

    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=constant)
    except UnicodeDecodeError as error:
        return {}, [f"the body is not UTF-8: {error}"]
    except (ValueError, RecursionError) as error:
        return {}, [f"the body is not JSON: {error}"]
    if not isinstance(body, dict):
        return {}, [f"the body is not a JSON object but {type(body).__name__}"]
    return body, violations
