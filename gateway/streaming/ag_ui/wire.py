"""AG-UI events as JSON objects, and as Server-Sent Events."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from perdure.runs.deltas import DeltaBase, Position
from perdure.runs.events import EventBase

Json = dict[str, Any]


def event(type: str, at: datetime | None = None, **fields: Any) -> Json:
    """Return an event; what is None is left out, as the protocol wants it."""
    stamp = None if at is None else int(at.timestamp() * 1000)
    given = {"type": type, "timestamp": stamp} | fields
    return {name: value for name, value in given.items() if value is not None}


def custom(item: EventBase | DeltaBase) -> Json:
    """Return what AG-UI has no event for, as we would send it."""
    value = item.model_dump(mode="json", exclude={"run"})
    return event("CUSTOM", name=value["type"], value=value)


def frames(events: Sequence[Json], position: Position | None) -> bytes:
    """Return events as Server-Sent Events; the last one says where the follower is then."""
    lines = [f"data: {json.dumps(each, ensure_ascii=False)}\n" for each in events]
    if lines and position is not None:
        lines[-1] = f"id: {position}\n{lines[-1]}"
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
