"""Where the one file of settings is: `PERDURE_CONFIG_FILE`, or `perdure.toml`."""

import os
from pathlib import Path

from perdure.runs.errors import ConfigurationError

VARIABLE = "PERDURE_CONFIG_FILE"
DEFAULT_FILE = "perdure.toml"


def config_file() -> Path | None:
    """Return the file that is to be read; none where nothing is named and nothing is there.

    Raises:
        ConfigurationError: When a file is named that does not exist.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named or DEFAULT_FILE)
    if path.is_file():
        return path
    if named:
        raise ConfigurationError(
            f"{VARIABLE}: there is no file {named!r}.",
            hint="Name one, or unset it; perdure.toml in the working directory is read by itself.",
        )
    return None
