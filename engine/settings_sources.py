"""Where settings come from: the environment, `.env`, `perdure.toml`; and what is wrong there.

Nothing here quotes a value: it may be a secret, or one at the wrong place.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    TomlConfigSettingsSource,
)

from perdure.engine.config_file import VARIABLE as FILE_VARIABLE
from perdure.engine.config_file import config_file
from perdure.runs.errors import ConfigurationError

PREFIX = "perdure_"
SECRET_PREFIX = "perdure_secret_"  # noqa: S105 - a name
SECRETS = "secrets"
"""The field of all variables that begin so."""
TABLES = frozenset({"providers", "models"})
"""Tables of the file that are read elsewhere: `engine/models.py`."""
ELSEWHERE = {FILE_VARIABLE, "PERDURE_LOCAL_MODEL", "PERDURE_LOCAL_MODEL_KEY", "PERDURE_CACHE_DIR"}
"""Variables that are read by others than the settings."""
ENVIRONMENT, DOTENV, DEFAULT = "environment", ".env", "default"
HINT = "docs/configuration.md has all settings."


class TomlSource(TomlConfigSettingsSource):
    """The settings of `perdure.toml`, or of the file that PERDURE_CONFIG_FILE names.

    Raises:
        ConfigurationError: When it is no TOML, or holds secrets or what is no setting.
    """

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        self._settings = settings_cls
        super().__init__(settings_cls, toml_file=config_file())

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        try:
            told: dict[str, Any] = super()._read_file(file_path)
        except OSError as exc:
            raise ConfigurationError(
                f"{file_path} can't be read: {exc.strerror}.", hint="Make it readable."
            ) from None
        except UnicodeDecodeError:
            raise ConfigurationError(
                f"{file_path} is no TOML: it is not UTF-8.", hint="Save it as UTF-8."
            ) from None
        except tomllib.TOMLDecodeError as exc:
            # Such as "Expected '=' after a key (at line 3, column 7)": no values are in it.
            raise ConfigurationError(f"{file_path} is no TOML: {exc}.", hint=HINT) from None
        for key in told:
            _refuse(key, file_path, self._settings)
        return {key: value for key, value in told.items() if key not in TABLES}

    def __call__(self) -> dict[str, Any]:
        """Return what no stronger source sets: a table there replaces one here as a whole."""
        return {k: v for k, v in super().__call__().items() if k not in self.current_state}


def _refuse(key: str, path: Path, settings: type[BaseSettings]) -> None:
    """Refuse a key of the file that is no setting, or a secret one."""
    known = {*settings.model_fields, *TABLES}
    variables = {variable(settings, name): name for name in settings.model_fields}
    field = key if key in known else variables.get(key.upper())
    if key.lower().startswith(SECRET_PREFIX):
        field = SECRETS
    if field in settings.model_fields and is_secret(settings, field):
        name = "PERDURE_SECRET_…" if field == SECRETS else variable(settings, field)
        raise ConfigurationError(
            f"{path}: {key[:64]!r} is a secret, and files like this one get shared.",
            hint=f"Set {name} in the environment, or in .env, and take it out of the file.",
        )
    if key not in known:
        nearest = field or nearest_to(key.lower().removeprefix(PREFIX), known - {SECRETS})
        raise ConfigurationError(
            f"{path}: there is no setting {key[:64]!r}.",
            hint=f"Did you mean {nearest}?" if nearest else HINT,
        )


def nearest_to(name: str, known: set[str]) -> str | None:
    """Return the known name that is most like another one, if one is."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1)), None)


def variable(settings: type[BaseSettings], field: str) -> str:
    """Return the variable of the environment that sets a field."""
    return settings.model_fields[field].alias or f"PERDURE_{field.upper()}"


def is_secret(settings: type[BaseSettings], field: str) -> bool:
    """Tell whether a field holds what must not be shown."""
    return SecretStr.__name__ in str(settings.model_fields[field].annotation)


def tool_secrets(*sources: PydanticBaseSettingsSource) -> dict[str, str]:
    """Return what the variables that begin with PERDURE_SECRET_ set; the last source wins."""
    found: dict[str, str] = {}
    for source in sources:
        if isinstance(source, EnvSettingsSource):
            # The library has made the names lower-case already.
            found |= {
                name.removeprefix(SECRET_PREFIX): value
                for name, value in source.env_vars.items()
                if name.startswith(SECRET_PREFIX) and value
            }
    return found


class Origins:
    """Which source each setting comes from.

    Args:
        settings: The class of settings.

    Raises:
        ConfigurationError: When the file can't be used.
    """

    def __init__(self, settings: type[BaseSettings]) -> None:
        self._settings = settings
        self._variables = {
            ENVIRONMENT: EnvSettingsSource(settings).env_vars,
            DOTENV: DotEnvSettingsSource(settings).env_vars,
        }
        self._file = config_file()
        self._in_file = TomlSource(settings).toml_data if self._file else {}

    def of(self, field: str) -> str:
        """Return where a field's value comes from: `environment`, `.env`, a file, `default`."""
        names = {variable(self._settings, field).lower(), f"{PREFIX}{field}"}
        for origin, variables in self._variables.items():
            if names & variables.keys() or (field == SECRETS and any(_tool_secrets(variables))):
                return origin
        return str(self._file) if field in self._in_file else DEFAULT

    def unknown(self) -> Iterator[tuple[str, str, str | None]]:
        """Yield the variables PERDURE_… that set nothing: name, source, and what is like it."""
        fields = {name.upper() for name in self._settings.model_fields}
        known = {f"PERDURE_{name}" for name in fields} | ELSEWHERE
        for origin, variables in self._variables.items():
            for name in sorted(variables):
                upper = name.upper()
                ours = name.startswith(PREFIX) and not name.startswith(SECRET_PREFIX)
                if ours and (upper not in known or (origin == DOTENV and upper in ELSEWHERE)):
                    like = nearest_to(upper.removeprefix("PERDURE_"), fields)
                    yield upper, origin, like and f"PERDURE_{like}"


def _tool_secrets(variables: Mapping[str, str | None]) -> Iterator[str]:
    return (name for name in variables if name.startswith(SECRET_PREFIX))


def unusable(exc: ValidationError, settings: type[BaseSettings]) -> ConfigurationError:
    """Return which setting is wrong, what is wrong with it, and where it stands."""
    problem = exc.errors(include_input=False, include_url=False)[0]
    path = [str(part) for part in problem["loc"]]
    name = " ".join([_named(path[0], settings), *path[1:]]) + ": " if path else ""
    message = problem["msg"].removeprefix("Value error, ")
    return ConfigurationError(f"{name}{message}.", hint=HINT)


def _named(loc: str, settings: type[BaseSettings]) -> str:
    field = next((n for n in settings.model_fields if loc in (n, variable(settings, n))), None)
    if field is None:
        return loc
    origin = Origins(settings).of(field)
    if origin in (ENVIRONMENT, DOTENV, DEFAULT):
        return variable(settings, field)
    return f"{origin}: {field}"
