"""Reading an answer that has to fit: tolerant of marks around it, exact about what is in it."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from perdure.activities.structured import WantedOutput
from perdure.agents.output import Unfit, shape_of
from perdure.runs.messages import without_lone_surrogates

ANY = WantedOutput(shape_of({}), "native", "final_answer")
OBJECT = WantedOutput(shape_of({"type": "object"}), "native", "final_answer")
NUMBERS = st.integers() | st.floats(-(2.0**53), 2.0**53)
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\n`\ud800")) | st.just("```")
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FENCES = st.sampled_from(
    ["{}", " {}\n", "\ufeff{}", "```json\n{}\n```", "```\r\n{}```", "  ```JSON \n\n{}\n\n```\n"]
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXTS, JSON, max_size=3), FENCES, st.booleans(), st.sampled_from([None, 2]))
def test_an_object_is_read_whatever_stands_around_it(
    value: dict[str, Any], fence: str, escaped: bool, indent: int | None
) -> None:
    written = json.dumps(value, ensure_ascii=escaped, indent=indent)
    read = OBJECT.read(fence.replace("{}", written))
    read.encode()
    exact = without_lone_surrogates(json.dumps(value, ensure_ascii=False))
    assert json.loads(read) == json.loads(exact)
    assert OBJECT.read(read) == read


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=20) | st.text('{}[]"`:,0123456789eE.-+ntf\\ud8', max_size=20))
def test_anything_else_is_refused_and_harms_nothing(text: str) -> None:
    try:
        read = OBJECT.read(text)
    except Unfit:
        return
    assert isinstance(json.loads(read), dict)


@pytest.mark.parametrize(
    "text",
    [
        '{"n":NaN}',
        '{"n":1e999}',
        '{"n":-Infinity}',
        '{"n":9007199254740993.0}',
        '{"n":' + "9" * 5000 + "}",
        "[" * 101 + "]" * 101,
        "[" * 200_000,
        '{"a":1} {"b":2}',
        'Here it is: {"a":1}',
        "",
        '{"a":"' + "x" * 600_000 + '"}',
    ],
)
def test_what_would_not_be_kept_as_it_is_is_refused(text: str) -> None:
    with pytest.raises(Unfit):
        ANY.read(text)


def test_numbers_keep_all_their_digits() -> None:
    assert ANY.read('{"n":123456789012345678901234567890}') == (
        '{"n":123456789012345678901234567890}'
    )
    exact = WantedOutput(shape_of(int), "native", "")
    assert exact.read('{"value": 18014398509481985}') == "18014398509481985"


class Inner(BaseModel):
    kind: Literal["a"]
    size: Annotated[int, Field(ge=1)] = 1


class Other(BaseModel):
    kind: Literal["b"]


@dataclass
class Outer:
    inner: Annotated[Inner, Field(description="The inner one.")]
    either: Annotated[Inner | Other, Field(discriminator="kind")]
    kids: "list[Outer]"
    price: Decimal = Decimal(1)


@pytest.mark.parametrize("kind", [Outer, list[Outer], int | str, Inner | Other, Decimal])
def test_what_providers_are_shown_of_a_type_is_strict(kind: Any) -> None:
    shape = shape_of(kind)
    assert shape.is_strict, shape.schema
    assert shape.schema["type"] == "object"
    assert "discriminator" not in json.dumps(shape.schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array", "items": {"type": "string", "minLength": 3}},
        {"anyOf": [{"type": "object"}, {"type": "null"}]},
    ],
)
def test_a_schema_that_a_strict_mode_refuses_is_not_called_strict(schema: dict[str, Any]) -> None:
    assert not shape_of(schema).is_strict


def test_a_value_is_kept_as_its_type_writes_it() -> None:
    wanted = WantedOutput(shape_of(Outer), "native", "")
    inner = {"kind": "a", "more": True}
    read = wanted.read(json.dumps({"inner": inner, "either": {"kind": "b"}, "kids": []}))
    assert json.loads(read) == {
        "inner": {"kind": "a", "size": 1},
        "either": {"kind": "b"},
        "kids": [],
        "price": "1",
    }
    assert wanted.read(read) == read
