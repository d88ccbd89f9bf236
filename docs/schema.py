"""The JSON Schema of everything a follower gets: `python -m docs.schema` writes it.

`make docs` does, and `make check` fails when it is stale (`--check`).
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Union, get_args

from pydantic import Field, TypeAdapter

from perdure.runs.deltas import Delta, Reset
from perdure.runs.events import Event

PUBLISHED = Path(__file__).with_name("events.schema.json")
ABOUT = (
    "What a follower of a Run gets, by its `type`; docs/events.md explains it. Types and fields are"
    " only added: pass over those that you do not know."
)


def schema() -> dict[str, Any]:
    """Return the schema: one object for each type, told apart by it."""
    members = *get_args(get_args(Event)[0]), *get_args(get_args(Delta)[0]), Reset
    told = Annotated[Union[members], Field(discriminator="type")]  # type: ignore[valid-type] # noqa: UP007
    found = TypeAdapter[Any](told).json_schema(mode="serialization")
    for member in members:
        found["$defs"][member.__name__]["required"].insert(0, "type")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "LiveEvent"}
    return head | {"description": ABOUT} | found


def main() -> None:
    """Write the schema, or see that it is current.

    Raises:
        SystemExit: When it is to be current, and is not.
    """
    text = json.dumps(schema(), indent=1) + "\n"
    if "--check" not in sys.argv:
        PUBLISHED.write_text(text)
    elif PUBLISHED.read_text() != text:
        sys.exit(f"{PUBLISHED.name} is stale: make docs")


if __name__ == "__main__":
    main()
