"""How Temporal is reached, as Temporal's own configuration says: `TEMPORAL_*` and profiles.

What comes with a profile is secret in parts, so no error here quotes any of it.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import TLSConfig

from perdure.runs.errors import ConfigurationError

DEFAULT_ADDRESS = "127.0.0.1:7233"
DEFAULT_PROFILE = "default"
ADDRESS = re.compile(r"(?P<host>\S*):(?P<port>[0-9]{1,5})")
WHERE_IN_FILE = re.compile(r"at line \d+, column \d+")


@dataclass(frozen=True)
class Destination:
    """A Temporal server, and how to get in.

    Attributes:
        host: Its name or address.
        port: Its port.
        config: Arguments of `Client.connect`; has secrets.
    """

    host: str
    port: int
    config: ClientConnectConfig

    @classmethod
    def configured(cls) -> "Destination":
        """Return what the environment and the profile say; the local default where they don't.

        Raises:
            ConfigurationError: When they are unusable; says what.
        """
        file = profile_file()
        if _file_is_named() and not file.exists():
            raise ConfigurationError(
                f"TEMPORAL_CONFIG_FILE: there is no file {str(file)!r}.",
                hint="Name one, or unset it.",
            )
        config = _loaded(file)
        found = ADDRESS.fullmatch(config.setdefault("target_host", DEFAULT_ADDRESS))
        if found is None or not 0 < int(found["port"]) < 2**16:
            raise ConfigurationError(
                "The address of Temporal is no host:port.",
                hint=f"TEMPORAL_ADDRESS, or address in the profile, is like {DEFAULT_ADDRESS}.",
            )
        return cls(found["host"] or "127.0.0.1", int(found["port"]), config)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def namespace(self) -> str:
        """The namespace that is asked for."""
        return self.config.get("namespace", "default")

    @property
    def tls(self) -> str:
        """How TLS is used, in words that say nothing secret; empty where it is not."""
        tls = self.config.get("tls")
        if not tls:
            return ""
        parts = ["on"]
        if isinstance(tls, TLSConfig):
            parts += ["with a CA of its own"] if tls.server_root_ca_cert else []
            parts += ["with a client certificate"] if tls.client_cert else []
        return ", ".join(parts)

    @property
    def has_api_key(self) -> bool:
        """Tell whether an API key is sent."""
        return bool(self.config.get("api_key"))


def profile_name() -> str:
    """Return the profile that is used, if there is one of that name."""
    return os.environ.get("TEMPORAL_PROFILE") or DEFAULT_PROFILE


def profile_file() -> Path:
    """Return the file of profiles, which need not be there unless it is named."""
    # https://docs.temporal.io/develop/environment-configuration: the user's folder, `temporalio`.
    default = platformdirs.user_config_path("temporalio") / "temporal.toml"
    return Path(os.environ.get("TEMPORAL_CONFIG_FILE") or default)


def unread_keys() -> str | None:
    """Return where the file of profiles has a key that is none of Temporal's; none if nowhere.

    They are passed over, so that a misspelt `address` leads to this machine.
    """
    if not profile_file().is_file():
        return None
    try:
        ClientConfig.load(config_file_strict=True)
    except RuntimeError as exc:
        found = WHERE_IN_FILE.search(str(exc))
        return found[0] if found else "somewhere"
    return None


def _file_is_named() -> bool:
    return bool(os.environ.get("TEMPORAL_CONFIG_FILE"))


def _loaded(file: Path) -> ClientConnectConfig:
    try:
        return ClientConfig.load_client_connect_config()
    except OSError as exc:
        # Of the certificates, which are read now.
        raise ConfigurationError(
            f"A TLS file of Temporal's configuration can't be read: {exc.filename}: "
            f"{exc.strerror}.",
            hint="Check TEMPORAL_TLS_*, and tls in the profile.",
        ) from None
    except (RuntimeError, ValueError) as exc:
        raise _unusable(str(exc), file) from None


def _unusable(said: str, file: Path) -> ConfigurationError:
    # The SDK quotes the line, which may be the one with the key.
    if where := WHERE_IN_FILE.search(said):
        return ConfigurationError(
            f"{file}: unusable {where[0]}.",
            hint="It is TOML, with tables such as [profile.default].",
        )
    if "not found" in said:
        return ConfigurationError(
            f"There is no profile {profile_name()!r} in {file}.",
            hint="TEMPORAL_PROFILE names one that is there.",
        )
    if "both" in said:
        names = " and ".join(re.findall(r"TEMPORAL_\w+", said))
        return ConfigurationError(f"Not both: {names}.", hint="Unset one of them.")
    return ConfigurationError(
        f"Temporal's configuration, {file}, can't be used.",
        hint="Check TEMPORAL_CONFIG_FILE, and the other TEMPORAL_* variables.",
    )
