"""What a model gives reaches the function as it was, whatever the types."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from perdure.agents.tool import Tool
from perdure.runs.steps import ToolPolicy


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    json_: Annotated[str, Field(alias="json")] = ""


@dataclass
class Size:
    width: float
    unit: Literal["mm", "in"] = "mm"


class Named(TypedDict):
    name: str


text = st.text(st.characters(codec="utf-8"), max_size=20)
whole = st.integers(-(2**63), 2**63 - 1)
real = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(timezones=st.just(UTC), min_value=datetime(1900, 1, 1))  # noqa: DTZ001

SIMPLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, text),
    (int, whole),
    (float, real),
    (bool, st.booleans()),
    (int | str, whole | text),
    (int | None, st.none() | whole),
    (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    (Colour, st.sampled_from(Colour)),
    (Annotated[int, Field(ge=1, le=9)], st.integers(1, 9)),
    (Annotated[str, Field(min_length=2, pattern="^a+$")], st.integers(2, 9).map("a".__mul__)),
    (Point, st.builds(Point, x=whole, json=text)),
    (Size, st.builds(Size, width=real, unit=st.sampled_from(["mm", "in"]))),
    (Named, st.fixed_dictionaries({"name": text})),
    (datetime, moments),
    (UUID, st.uuids()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9)),
]


@st.composite
def typed(draw: st.DrawFn) -> tuple[Any, Any]:
    """Return a type and a value of it, perhaps within a list or a dict."""
    kind, values = draw(st.sampled_from(SIMPLE))
    match draw(st.sampled_from(["plain", "list", "dict", "lists"])):
        case "list":
            return list[kind], draw(st.lists(values, max_size=3))
        case "dict":
            return dict[str, kind], draw(st.dictionaries(text, values, max_size=3))
        case "lists":
            return dict[str, list[kind]], draw(st.dictionaries(text, st.lists(values), max_size=2))
        case _:
            return kind, draw(values)


NAMES = [
    "query",
    "schema",
    "json",
    "copy",
    "model_config",
    "_x",
    "p0",
    "p1",
    "title",
    "dict",
    "cls",
]


def function_of(types: dict[str, Any]) -> Any:
    """Return a function that takes these, and returns what it got."""
    source = f"def taken({', '.join(types)}):\n    return {{{_pairs(types)}}}"
    made: dict[str, Any] = {}
    exec(source, made)  # noqa: S102 - made of the names above
    made["taken"].__annotations__ = types
    return made["taken"]


def _pairs(types: dict[str, Any]) -> str:
    return ", ".join(f"{name!r}: {name}" for name in types)


@given(st.dictionaries(st.sampled_from(NAMES), typed(), max_size=5), st.booleans())
def test_what_the_schema_allows_reaches_the_function_as_it_was(
    parameters: dict[str, tuple[Any, Any]], in_ascii: bool
) -> None:
    types = {name: kind for name, (kind, _) in parameters.items()}
    values = {name: value for name, (_, value) in parameters.items()}
    made = Tool(function_of(types), "taken", ToolPolicy())
    schema = made.schema["function"]["parameters"]
    assert set(schema["properties"]) == set(schema.get("required", [])) == set(types)
    assert "title" not in set(_keywords(schema))
    sent = json.dumps(to_jsonable_python(values, by_alias=True), ensure_ascii=in_ascii)
    assert made.function(**made.keyword_arguments(sent)) == values


def _keywords(schema: Any) -> Iterator[str]:
    """Yield what stands where a keyword stands, not the names that somebody chose."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            inner = value.values() if key in ("properties", "$defs") else [value]
            for each in inner:
                yield from _keywords(each)
