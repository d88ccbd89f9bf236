"""What the files of a deployment say, read as compose reads them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read(path: str) -> Any:
    """Return what a YAML file of this repository says."""
    return yaml.safe_load((ROOT / path).read_text())


COMPOSE: dict[str, Any] = read("docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NAMES = sorted(SERVICES)


def env_file(path: Path) -> dict[str, str]:
    """Return the variables of an env file."""
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def environment(service: str, deploy: Path = DEPLOY) -> dict[str, str]:
    """Return the variables of a service: of its env files, and before them its own.

    Args:
        service: Its name.
        deploy: The folder that its env files are in.
    """
    found: dict[str, str] = {}
    for name in SERVICES[service].get("env_file", []):
        found |= env_file(deploy / Path(name).name)
    return found | SERVICES[service].get("environment", {})


class Machine:
    """The machine that a service runs on, where not in a container.

    Args:
        replaced: Hosts, ports and folders of the container, and what they are here.
    """

    def __init__(self, replaced: Mapping[str, str]) -> None:
        self._replaced = replaced
        longest = sorted(replaced, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)))

    def text(self, text: str) -> str:
        """Return what a text of the compose file is here."""
        return self._pattern.sub(lambda found: self._replaced[found.group()], text)

    def texts(self, texts: list[str]) -> list[str]:
        """Return what a command of the compose file is here."""
        return [self.text(each) for each in texts]

    def environment(self, service: str, deploy: Path) -> dict[str, str]:
        """Return what the variables of a service are here."""
        found = environment(service, deploy)
        return {name: self.text(value) for name, value in found.items()}
