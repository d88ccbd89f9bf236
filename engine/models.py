"""Providers and models from `perdure.toml`, put together with `OPENAI_API_KEY` and the like.

Everything that can be wrong is found when a worker starts, and told with its table and key.
Values are never told: somebody may have put a key where its name belongs.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import BaseModel, SecretStr, ValidationError

from perdure.engine.config_file import config_file
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from perdure.runs.limits import RateLimit
from perdure.runs.providers import (
    DEFAULT_KEY,
    DEFAULT_PROVIDER,
    AliasPrice,
    ModelAlias,
    ModelTable,
    Provider,
)

VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|xai|gsk)[-_][A-Za-z0-9_*-]{8,}|\bBearer\s+\S{8,}")
"""As `activities.redaction` knows them."""
CREDENTIALS = ("authorization", "proxy-authorization", "cookie", "api-key", "x-api-key")
"""Headers that are made of a key."""
READ_IN = "docs/models.md has an example."

Table = TypeVar("Table", bound=BaseModel)


def model_table(settings: Settings) -> ModelTable:
    """Return all providers and models that are configured; none where nothing is.

    Raises:
        ConfigurationError: When the file is unusable; says where.
    """
    path = config_file()
    told = _Tables(path) if path is not None else None
    providers = dict(told.parsed("providers", Provider)) if told else {}
    models = dict(told.parsed("models", ModelAlias)) if told else {}
    keys: dict[str, SecretStr] = {}
    if DEFAULT_PROVIDER not in providers and (settings.openai_api_key or settings.openai_base_url):
        has_key = settings.openai_api_key is not None
        providers[DEFAULT_PROVIDER] = Provider(
            base_url=settings.openai_base_url, api_key=DEFAULT_KEY if has_key else None
        )
        if settings.openai_api_key is not None:
            keys[DEFAULT_PROVIDER] = settings.openai_api_key
    table = ModelTable(providers=providers, models=models, keys=keys)
    return told.checked(table) if told else table


class _Tables:
    """The tables `providers` and `models` of a file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._data = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as exc:
            raise ConfigurationError(f"{path} can't be read: {exc}.", hint=READ_IN) from None

    def parsed(self, kind: str, model: type[Table]) -> Iterator[tuple[str, Table]]:
        """Yield the tables of one kind, by name."""
        tables = self._data.get(kind, {})
        if not isinstance(tables, dict):
            raise self._wrong(kind, "", "it is no table", f"Write [{kind}.NAME].")
        for name, table in tables.items():
            where = f"{kind}.{name}"
            if not isinstance(table, dict):
                raise self._wrong(where, "", "it is no table", f"Write [{where}].")
            self._refuse_secrets(where, table)
            try:
                yield name, model.model_validate(table)
            except ValidationError as exc:
                raise self._unusable(where, exc, model) from None

    def checked(self, table: ModelTable) -> ModelTable:
        """Return the table with its keys, if everything it names is there.

        Raises:
            ConfigurationError: When something is not; says which.
        """
        for name in self._data.get("providers", {}):
            self._check_provider(name, table.providers[name])
        for name, alias in table.models.items():
            self._check_alias(name, alias, table)
        self._refuse_cycles(table)
        self._refuse_two_limits(table)
        return table.model_copy(update={"keys": table.keys | self._keys(table)})

    def _check_provider(self, name: str, provider: Provider) -> None:
        where = f"providers.{name}"
        if provider.base_url is None:
            if name != DEFAULT_PROVIDER:
                way = 'Such as base_url = "https://openrouter.ai/api/v1", up to and including /v1.'
                raise self._wrong(where, "base_url", "it is missing", way)
            return
        url = urlsplit(provider.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise self._wrong(where, "base_url", "it is no http or https URL", READ_IN)
        if url.username is not None or url.query or url.fragment:
            way = 'Name the variable that holds the key: api_key = "MY_KEY".'
            raise self._wrong(where, "base_url", "it holds more than an address", way)

    def _check_alias(self, name: str, alias: ModelAlias, table: ModelTable) -> None:
        where = f"models.{name}"
        if alias.provider not in table.providers:
            what = f"there is no provider {alias.provider!r}"
            way = f"Add [providers.{alias.provider}]."
            if alias.provider == DEFAULT_PROVIDER:
                way = f"Set {DEFAULT_KEY}, or say which one: provider = …"
            raise self._wrong(
                where, "provider", what, _nearest(alias.provider, table.providers, way)
            )
        for each in alias.fallbacks:
            if not table.is_known(each):
                what = f"there is no model {each!r}"
                way = f"Add [models.{each}]; without {DEFAULT_KEY} only aliases can be asked for."
                raise self._wrong(where, "fallbacks", what, _nearest(each, table.models, way))

    def _refuse_cycles(self, table: ModelTable) -> None:
        for name in table.models:
            path = _cycle(table, name)
            if path:
                what = f"they lead back to where they began: {' → '.join(path)}"
                raise self._wrong(f"models.{name}", "fallbacks", what, "Take one of them out.")

    def _refuse_two_limits(self, table: ModelTable) -> None:
        found: dict[tuple[str, str], tuple[str, RateLimit]] = {}
        for name, alias in table.models.items():
            if alias.rate_limit is None:
                continue
            model = alias.model or name
            other, limit = found.setdefault((alias.provider, model), (name, alias.rate_limit))
            if limit != alias.rate_limit:
                what = f"models.{other} is the same model of the same provider, and says otherwise"
                raise self._wrong(f"models.{name}", "rate_limit", what, "Say it once.")

    def _keys(self, table: ModelTable) -> dict[str, SecretStr]:
        """Return the keys of the providers of this file that any model may be asked for at."""
        variables = {**dotenv_values(".env"), **os.environ}
        used = {alias.provider for alias in table.models.values()} | {DEFAULT_PROVIDER}
        keys: dict[str, SecretStr] = {}
        for name in self._data.get("providers", {}):
            variable = table.providers[name].api_key
            if variable is None or name not in used:
                continue
            if not variables.get(variable):
                way = "Set it for the worker, or in .env; leave api_key out where none is needed."
                what = f"the environment variable {variable} is not set"
                raise self._wrong(f"providers.{name}", "api_key", what, way)
            keys[name] = SecretStr(variables[variable] or "")
        return keys

    def _refuse_secrets(self, where: str, table: Mapping[str, Any]) -> None:
        way = 'Put it into an environment variable, or .env, and name that: api_key = "MY_KEY".'
        key = table.get("api_key")
        if isinstance(key, str) and not VARIABLE_NAME.fullmatch(key):
            raise self._wrong(
                where, "api_key", "it is not the name of an environment variable", way
            )
        headers = table.get("headers")
        for header in headers if isinstance(headers, dict) else ():
            if header.lower() in CREDENTIALS:
                raise self._wrong(where, f"headers.{header}", "it would be a secret", way)
        for name, value in _texts(table):
            if KEY_LIKE.search(value):
                raise self._wrong(where, name, "it looks like a secret", way)

    def _unusable(
        self, where: str, exc: ValidationError, model: type[BaseModel]
    ) -> ConfigurationError:
        problem = exc.errors(include_input=False, include_context=False)[0]
        keys = [str(part) for part in problem["loc"]]
        if problem["type"] == "extra_forbidden":
            known = _keys_of(model, keys[:-1])
            way = f"There are: {', '.join(known)}."
            return self._wrong(
                where, ".".join(keys), "there is no such key", _nearest(keys[-1], known, way)
            )
        said = problem["msg"].removeprefix("Value error, ")
        return self._wrong(where, ".".join(keys), said[:1].lower() + said[1:], READ_IN)

    def _wrong(self, where: str, key: str, what: str, way: str) -> ConfigurationError:
        at = f"{self._path}: [{where}]" + (f" {key}" if key else "")
        # Names are told, and a key may stand even where a name belongs.
        return ConfigurationError(KEY_LIKE.sub("…", f"{at}: {what}."), hint=KEY_LIKE.sub("…", way))


def _cycle(table: ModelTable, name: str) -> list[str]:
    """Return the shortest path of fallbacks that leads from a name back to it, if there is one."""
    paths, seen = [[name]], set[str]()
    for path in paths:
        for each in table.stands_for(path[-1]).fallbacks:
            if each == name:
                return [*path, each]
            if each not in seen:
                seen.add(each)
                paths.append([*path, each])
    return []


def _keys_of(model: type[BaseModel], path: list[str]) -> list[str]:
    nested: dict[str, type[BaseModel]] = {"price": AliasPrice, "rate_limit": RateLimit}
    for name in path:
        model = nested.get(name, model)
    return list(model.model_fields)


def _nearest(name: str, known: Mapping[str, object] | list[str], way: str) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]!r}? {way}" if near else way


def _texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text below a value, with its key."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, name)
