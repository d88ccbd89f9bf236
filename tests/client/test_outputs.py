"""Schemas that callers give are checked before anything is started."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from perdure.client.outputs import checked_schema, read_schema
from perdure.runs.errors import ErrorCode, InvalidRequest


class Person(BaseModel):
    name: str


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def test_a_schema_is_given_as_such_or_as_a_type_or_in_a_file(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"default": None}}}
    assert checked_schema(schema) == schema
    assert checked_schema(None) is None
    assert checked_schema(Person) == Person.model_json_schema()
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    assert read_schema(file) == schema
    assert read_schema(None) is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"enum": [float("nan")]}, "is no JSON"),
        ({"enum": [{1, 2}]}, "is no JSON"),
        ({"enum": ["\ud800"]}, "is no JSON"),
        (nested(101), "more than 100 levels"),
        (print, "can't be an output"),
        ({"enum": ["x" * 16_384]}, "16,384 are allowed"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_way_out(given: Any, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        checked_schema(given)
    assert caught.value.hint
    too_large = "allowed" in why
    assert (caught.value.code is ErrorCode.PAYLOAD_TOO_LARGE) == too_large


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_file_that_holds_none_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=r"schema\.json"):
        read_schema(file)
    with pytest.raises(InvalidRequest, match=r"no\.json"):
        read_schema(tmp_path / "no.json")
