"""Any value as strict JSON: what is written of it where, and what is refused.

NaN and infinities become null, halves of surrogate pairs U+FFFD; bytes are their UTF-8 text;
dates, UUIDs, Decimals and Enums what pydantic makes of them. All else is exact.
"""

from typing import Any

from perdure.runs.messages import without_lone_surrogates
from pydantic import BaseModel
from pydantic_core import from_json, to_json, to_jsonable_python


class NotJson(ValueError):
    """The value holds what JSON can't: itself, unknown types, bytes that are no text."""


def strict_json(value: Any) -> bytes:
    """Return a value as strict, compact UTF-8 JSON.

    Raises:
        NotJson: When it can't be.
    """
    try:
        return _finite(_json(value))
    except ValueError:
        # It may be for nothing but half a character: file names that are no UTF-8 have some.
        # Looked for before and after, because pydantic can't even write a key that has one.
        try:
            plain = to_jsonable_python(_valid(value), inf_nan_mode="constants")
            return _finite(_json(_valid(plain)))
        except (ValueError, RecursionError) as exc:
            raise NotJson(_reason(exc)) from exc


def is_deeper(value: Any, allowed: int) -> bool:
    """Tell whether a value of JSON has more than so many levels of lists and objects."""
    level = [value]
    for _ in range(allowed):
        level = [child for each in level for child in _children(each)]
    return any(isinstance(each, (dict, list)) for each in level)


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null")


def _finite(raw: bytes) -> bytes:
    # A pydantic model can ask for these words, which are no JSON.
    if b"NaN" in raw or b"Infinity" in raw:
        return _json(from_json(raw))
    return raw


def _valid(value: Any) -> Any:
    match value:
        case str():
            return without_lone_surrogates(value)
        case BaseModel():
            return _valid(value.model_dump())
        case list() | tuple() | set() | frozenset():
            return [_valid(item) for item in value]
        case dict():
            return {_valid(key): _valid(item) for key, item in value.items()}
        case _:
            return value


def _reason(exc: Exception) -> str:
    said = without_lone_surrogates(str(exc))
    return said.removeprefix("Error serializing to JSON: ")
