"""The configuration as it may be shown: each value with where it comes from, and no secrets."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from perdure.engine.config_file import config_file
from perdure.engine.destination import Destination, profile_file, profile_name, unread_keys
from perdure.engine.settings import Settings
from perdure.engine.settings_sources import DOTENV, SECRETS, Origins, is_secret, variable
from perdure.runs.frozen import Frozen

MASK = "***"
SECRET_PARAMETER = re.compile(
    r"([?&;#][^=&;#]*(?:key|token|secret|password|passwd|auth|sig|code|credential)[^=&;#]*=)"
    r"[^&;#]*",
    re.IGNORECASE,
)


class ShownSetting(Frozen):
    """One setting."""

    variable: str
    """Its name in the environment."""
    name: str
    """Its name in the file."""
    value: Any = None
    """Of a secret, nothing."""
    secret: bool = False
    is_set: bool = True
    source: str
    """`environment`, `.env`, the file's path, or `default`."""


class ShownTemporal(Frozen):
    """How Temporal is reached."""

    address: str
    namespace: str
    profile: str
    profile_file: str | None
    """None where there is none."""
    tls: str
    """`off`, or how it is on."""
    api_key_is_set: bool


class ShownConfiguration(Frozen):
    """All of it."""

    settings: tuple[ShownSetting, ...]
    temporal: ShownTemporal
    file: str | None
    """The file of settings that was read."""
    warnings: tuple[str, ...] = ()


def shown_configuration() -> ShownConfiguration:
    """Return the configuration as it may be shown.

    Raises:
        ConfigurationError: When a part of it can't be used.
    """
    settings = Settings.configured()
    origins = Origins(Settings)
    file = config_file()
    return ShownConfiguration(
        settings=tuple(_shown(settings, name, origins.of(name)) for name in Settings.model_fields),
        temporal=_temporal(Destination.configured()),
        file=str(file) if file else None,
        warnings=warnings(origins),
    )


def warnings(origins: Origins) -> tuple[str, ...]:
    """Return what is set and has no effect, a sentence each."""
    found = []
    for name, source, nearest in origins.unknown():
        known = f" Did you mean {nearest}?" if nearest else ""
        misplaced = source == DOTENV and nearest is None
        why = "is not read from there" if misplaced else "is no setting"
        found.append(f"{name} ({source}) {why}.{known}")
    if where := unread_keys():
        found.append(f"{profile_file()} has a key that Temporal does not know, {where}.")
    return tuple(found)


def masked_url(text: str) -> str:
    """Return a text; where it is a URL, without passwords, and without what looks like a key."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return MASK
    user = f"{MASK}@" if "@" in parts.netloc else ""
    return SECRET_PARAMETER.sub(rf"\1{MASK}", urlunsplit(parts._replace(netloc=user + host)))


def in_words(value: Any) -> str:
    """Return a value as a person writes it."""
    if value is None or value in ([], {}):
        return "not set"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(settings: Settings, name: str, source: str) -> ShownSetting:
    value = getattr(settings, name)
    secret = is_secret(Settings, name)
    return ShownSetting(
        variable=variable(Settings, name),
        name=name,
        value=_masked(value) if not secret else _secret(name, value),
        secret=secret,
        is_set=value not in (None, {}, []),
        source=source,
    )


def _secret(name: str, value: dict[str, SecretStr] | SecretStr | None) -> Any:
    return sorted(value) if name == SECRETS and isinstance(value, dict) else None


def _masked(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return masked_url(value)
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return to_jsonable_python(value, exclude_none=True)


def _temporal(found: Destination) -> ShownTemporal:
    file = profile_file()
    return ShownTemporal(
        address=str(found),
        namespace=found.namespace,
        profile=profile_name(),
        profile_file=str(file) if file.is_file() else None,
        tls=found.tls or "off",
        api_key_is_set=found.has_api_key,
    )
