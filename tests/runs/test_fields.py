"""What may be left out of a payload: every field that can be none is none by default."""

import importlib
import pkgutil
import typing
from collections.abc import Iterator

import pytest

import perdure.runs
from perdure.runs.frozen import Frozen


def models() -> list[type[Frozen]]:
    """Return every value of the core."""
    for module in pkgutil.iter_modules(perdure.runs.__path__):
        importlib.import_module(f"perdure.runs.{module.name}")
    return sorted(set(_below(Frozen)), key=lambda model: model.__name__)


def _below(model: type[Frozen]) -> Iterator[type[Frozen]]:
    for each in model.__subclasses__():
        if each.__module__.startswith("perdure.runs."):
            yield each
        yield from _below(each)


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_a_field_that_can_be_none_is_none_when_it_is_not_written(model: type[Frozen]) -> None:
    """The data converter leaves such fields out."""
    for field in model.model_fields.values():
        if type(None) in typing.get_args(field.annotation):
            assert field.get_default() is None
            assert not field.is_required()
