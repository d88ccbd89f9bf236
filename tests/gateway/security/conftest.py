"""Fixtures: a file of keys, and settings that name it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.engine.api_keys import KeyFile
from perdure.engine.settings import Settings

MakeSettings = Callable[..., Settings]
PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys" / "api.json")


@pytest.fixture
def settings(keys: KeyFile, tmp_path: Path) -> MakeSettings:
    """Make settings with keys and an audit log; what is given replaces them."""

    def made(**given: object) -> Settings:
        usual = {"api_keys": keys.path, "audit_log": tmp_path / "audit.log"}
        return Settings(**(usual | given))  # type: ignore[arg-type]

    return made
